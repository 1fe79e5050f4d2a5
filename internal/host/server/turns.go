package server

import "gated/internal/base/refusal"

// inTurn is for end points that read much: lists must not keep decisions, which
// need no turn, waiting. The others wait within their deadline.
func (s *Server) inTurn(answerTo func(*call) (answer, error)) func(*call) (answer, error) {
	return func(c *call) (answer, error) {
		end, err := s.turns.Take(c.ctx, c.by.UID)
		if err != nil {
			return answer{}, ownRefusal(refusal.New(refusal.OverLimit, "too many lists at once").
				WithHint("end some, or try again later"))
		}
		defer end()
		a, err := answerTo(c)
		if err == nil {
			err = a.encode() // what it was made of is let go within the turn
		}
		return a, err
	}
}
