package sink_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/notify/settings"
	"gated/internal/notify/sink"
	"gated/internal/test/must"
)

// mailServer speaks SMTP (RFC 5321) with STARTTLS (RFC 3207) and AUTH PLAIN (RFC 4954).
type mailServer struct {
	t        *testing.T
	listener net.Listener
	tls      *tls.Config
	starttls bool // it offers STARTTLS
	answer   map[string]string

	mu    sync.Mutex
	mails []received
}

type received struct {
	from, auth string
	to         []string
	data       string
	secure     bool
}

func newMailServer(t *testing.T, config *tls.Config, implicit, starttls bool) *mailServer {
	s := &mailServer{t: t, tls: config, starttls: starttls, answer: map[string]string{}}
	s.listener = must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	if implicit {
		s.listener = tls.NewListener(s.listener, config)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := s.listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { defer c.Close(); s.serve(c, implicit) })
		}
	})
	t.Cleanup(func() { _ = s.listener.Close(); all.Wait() })
	return s
}

func (s *mailServer) serve(c net.Conn, secure bool) {
	r, m := bufio.NewReader(c), received{secure: secure}
	say := func(text string) { _, _ = io.WriteString(c, text+"\r\n") }
	say("220 mail.test ESMTP")
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		verb, rest, _ := strings.Cut(line, " ")
		if text, ok := s.answer[strings.ToUpper(verb)]; ok {
			say(text)
			continue
		}
		switch strings.ToUpper(verb) {
		case "EHLO":
			say("250-mail.test")
			if s.starttls && !m.secure {
				say("250-STARTTLS")
			}
			say("250 AUTH PLAIN")
		case "STARTTLS":
			say("220 go on")
			secured := tls.Server(c, s.tls)
			if secured.Handshake() != nil {
				return
			}
			c, r, m.secure = secured, bufio.NewReader(secured), true
		case "AUTH":
			b, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(rest, "PLAIN "))
			m.auth = strings.ReplaceAll(string(b), "\x00", "|")
			say("235 yes")
		case "MAIL":
			m.from = rest
			say("250 ok")
		case "RCPT":
			m.to = append(m.to, rest)
			say("250 ok")
		case "DATA":
			say("354 go on")
			var data strings.Builder
			for {
				l, err := r.ReadString('\n')
				if err != nil {
					return
				}
				if l == ".\r\n" {
					break
				}
				data.WriteString(strings.TrimPrefix(l, "."))
			}
			m.data = data.String()
			s.mu.Lock()
			s.mails = append(s.mails, m)
			s.mu.Unlock()
			say("250 queued")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("500 what")
		}
	}
}

func (s *mailServer) settings(a authority, how string) settings.Sink {
	return settings.Sink{SMTP: &settings.SMTP{Server: s.listener.Addr().String(), TLS: how, User: "gated", Password: "pass word",
		From: "gated@example.com", To: []string{"ops@example.com", "lead@example.com"}, CA: a.pem}}
}

// With STARTTLS and with TLS from the begin, the server gets the mail, and no text of others has become a header.
func TestMail(t *testing.T) {
	a := newAuthority(t)
	for _, how := range []string{"starttls", "implicit"} {
		s := newMailServer(t, a.server(t, nil), how == "implicit", how == "starttls")
		must.Get(open(t, s.settings(a, how)).Send(t.Context(), waits(), noon))(t)
		must.Get(open(t, s.settings(a, how)).Send(t.Context(), waits(), noon))(t)
		require.Len(t, s.mails, 2)
		m := s.mails[0]
		require.True(t, m.secure)
		require.Equal(t, "|gated|pass word", m.auth)
		require.Equal(t, "FROM:<gated@example.com>", m.from)
		require.Equal(t, []string{"TO:<ops@example.com>", "TO:<lead@example.com>"}, m.to)
		read := must.Get(mail.ReadMessage(strings.NewReader(m.data)))(t)
		require.Empty(t, read.Header.Get("Bcc"))
		require.Len(t, read.Header, 11)
		subject := must.Get(new(mime.WordDecoder).DecodeHeader(read.Header.Get("Subject")))(t)
		require.Contains(t, subject, "☃")
		require.Equal(t, "auto-generated", read.Header.Get("Auto-Submitted"))
		require.Equal(t, read.Header.Get("References"), read.Header.Get("In-Reply-To"))
		again := must.Get(mail.ReadMessage(strings.NewReader(s.mails[1].data)))(t)
		require.Equal(t, read.Header.Get("Message-ID"), again.Header.Get("Message-ID"), "the same at each try")
		require.Equal(t, noon, must.Get(read.Header.Date())(t).UTC())
		require.Len(t, must.Get(read.Header.AddressList("To"))(t), 2)
		body := must.Get(io.ReadAll(quotedprintable.NewReader(read.Body)))(t)
		require.Contains(t, string(body), "type: opsign show j5.1")
		require.Contains(t, string(body), "A reply to this message decides nothing")
	}
}

// A signer's name that looks like an encoded word reaches the reader as it was written, but for a space.
func TestASubjectIsDecodedOnce(t *testing.T) {
	m := waits()
	m.Title = "demo: j5.1 was signed by =?utf-8?q?nobody=0A?="
	a := newAuthority(t)
	s := newMailServer(t, a.server(t, nil), false, true)
	must.Get(open(t, s.settings(a, "starttls")).Send(t.Context(), m, noon))(t)
	read := must.Get(mail.ReadMessage(strings.NewReader(s.mails[0].data)))(t)
	subject := must.Get(new(mime.WordDecoder).DecodeHeader(read.Header.Get("Subject")))(t)
	require.Equal(t, "demo: j5.1 was signed by = ?utf-8?q?nobody=0A?=", subject)
}

// A server without STARTTLS gets nothing, neither the mail nor the password; one on this machine may be called
// without TLS if the settings say so.
func TestMailWithoutTLS(t *testing.T) {
	a := newAuthority(t)
	s := newMailServer(t, a.server(t, nil), false, false)
	f := failure(t, must.Err(open(t, s.settings(a, "starttls")).Send(t.Context(), waits(), noon))(t))
	require.True(t, f.Refused)
	require.Contains(t, f.Why, "STARTTLS")
	require.Empty(t, s.mails)
	local := s.settings(a, "none")
	must.Get(open(t, local).Send(t.Context(), waits(), noon))(t)
	require.False(t, s.mails[0].secure)
}

func TestMailCertificate(t *testing.T) {
	a, b := newAuthority(t), newAuthority(t)
	for _, how := range []string{"starttls", "implicit"} {
		s := newMailServer(t, b.server(t, nil), how == "implicit", true)
		f := failure(t, must.Err(open(t, s.settings(a, how)).Send(t.Context(), waits(), noon))(t))
		require.Contains(t, f.Why, "certificate", how)
		require.Empty(t, s.mails)
	}
}

// 4xx is for later, 5xx for good. What the server repeats of the password is not said.
func TestMailAnswers(t *testing.T) {
	a := newAuthority(t)
	for verb, answer := range map[string]string{"RCPT": "550 no such user", "MAIL": "451 later", "AUTH": "535 bad pass word", "DATA": "452 full"} {
		s := newMailServer(t, a.server(t, nil), false, true)
		s.answer[verb] = answer
		f := failure(t, must.Err(open(t, s.settings(a, "starttls")).Send(t.Context(), waits(), noon))(t))
		require.Equal(t, answer[0] == '5', f.Refused, verb)
		require.Contains(t, f.Why, answer[:3], verb)
		require.NotContains(t, f.Why, "pass word", verb)
		require.Empty(t, s.mails)
	}
}

// nonsense is what a mail server can say that is none.
var nonsense = []string{"", "hello\r\n", "220", "220-", strings.Repeat("220-x\r\n", 50_000), strings.Repeat("x", 200_000), "999 odd\r\n",
	"220 ok\r\n250-\xff\xfe\r\n250 x\r\nnonsense\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", "220 a\r\n250 STARTTLS\r\n220 go\r\n\x16\x03\x01junk",
	"220 a\r\n500 x\r\n250 ok\r\n250 ok\r\n354 x\r\n"}

// A server that speaks nonsense ends a try soon, with an error.
func TestMailNonsense(t *testing.T) {
	for _, text := range nonsense {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		var all sync.WaitGroup
		all.Go(func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = io.WriteString(c, text)
			_, _ = io.Copy(io.Discard, c)
		})
		to := open(t, settings.Sink{Timeout: 500 * time.Millisecond, SMTP: &settings.SMTP{Server: l.Addr().String(), TLS: "starttls", From: "a@b.cc", To: []string{"d@e.ff"}}})
		f := failure(t, must.Err(to.Send(t.Context(), waits(), noon))(t, "%.40q", text))
		require.LessOrEqual(t, len([]rune(f.Why)), 300)
		require.NoError(t, l.Close())
		all.Wait()
	}
}

// said is a connection to a server that says the same whatever it hears.
type said struct {
	net.Conn
	r io.Reader
	w bytes.Buffer
}

func (s *said) Read(p []byte) (int, error)  { return s.r.Read(p) }
func (s *said) Write(p []byte) (int, error) { return s.w.Write(p) }
func (s *said) Close() error                { return nil }

// Whatever a server says, the password leaves only over TLS or to this machine, and a mail counts as taken only after
// an answer of 2xx to its data.
func FuzzMailServer(f *testing.F) {
	for _, text := range nonsense {
		if len(text) < 1000 { // large ones are slow to change
			f.Add([]byte(text))
		}
	}
	f.Add([]byte("220 a\r\n250 ok\r\n250 ok\r\n250 ok\r\n354 go\r\n250 done\r\n221 x\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &said{r: bytes.NewReader(b)}
		to := settings.SMTP{Server: "mail.example.com:25", TLS: "starttls", User: "u", Password: "hunter2", From: "a@b.cc", To: []string{"d@e.ff"}}
		err := sink.Talk(to, s, waits(), noon)
		require.Error(t, err)
		require.NotContains(t, s.w.String(), base64.StdEncoding.EncodeToString([]byte("\x00u\x00hunter2")))
		require.NotContains(t, s.w.String(), "DATA")
		local := &said{r: bytes.NewReader(b)}
		err = sink.Talk(settings.SMTP{Server: "127.0.0.1:25", TLS: "none", From: "a@b.cc", To: []string{"d@e.ff"}}, local, waits(), noon)
		if err == nil {
			require.Contains(t, local.w.String(), "DATA")
			require.Regexp(t, `(?m)^354`, string(b))
		}
	})
}
