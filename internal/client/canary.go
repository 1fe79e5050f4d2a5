package client

import (
	"context"
	"fmt"
	"net/http"
)

// AcceptAlert ends the canary's alert about the change of that audit entry, for
// an operator. One that does not stand, or is about another change, is
// UnknownTarget.
func (c *Client) AcceptAlert(ctx context.Context, change int64) error {
	return c.json(ctx, call{method: http.MethodPost, path: fmt.Sprintf("/v1/canary/%d/accept", change)}, nil, nil)
}
