package sink

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/smtp"
	"net/textproto"
	"strings"
	"time"

	"gated/internal/notify/message"
	"gated/internal/notify/settings"
)

// maxTalk is the most bytes that are read from a mail server in one delivery.
const maxTalk = 64 << 10

// mailer sends mails through one server.
type mailer struct {
	is  settings.SMTP
	tls *tls.Config
}

func newMail(s settings.SMTP) (mailer, error) {
	config, err := trusts(s.CA)
	if err != nil {
		return mailer{}, err
	}
	host, _, err := net.SplitHostPort(s.Server)
	config.ServerName = host
	return mailer{s, config}, err
}

// bounded is a connection that ends after maxTalk bytes from the other side.
type bounded struct {
	net.Conn
	left int
}

var errTalk = errors.New("the server says too much")

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTalk
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func (s mailer) Send(ctx context.Context, m message.Message, now time.Time) (string, error) {
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", s.is.Server)
	if err != nil {
		return "", &Failure{Why: plain(err)}
	}
	defer func() { _ = raw.Close() }()
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	var conn net.Conn = &bounded{raw, maxTalk}
	if s.is.TLS == "implicit" {
		secure := tls.Client(conn, s.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			return "", &Failure{Why: plain(err)}
		}
		conn = secure
	}
	if err := s.talk(conn, m, now); err != nil {
		return "", smtpFailure(err)
	}
	return "the server took it", nil
}

// talk delivers one mail over a connection.
func (s mailer) talk(conn net.Conn, m message.Message, now time.Time) error {
	c, err := smtp.NewClient(conn, s.tls.ServerName)
	if err != nil {
		return err
	}
	if err := c.Hello("gated-notify.invalid"); err != nil {
		return err
	}
	if s.is.TLS == "starttls" {
		if ok, _ := c.Extension("STARTTLS"); !ok {
			return &Failure{Why: "the server has no STARTTLS, and a mail is not sent without TLS", Refused: true}
		}
		if err := c.StartTLS(s.tls); err != nil {
			return fmt.Errorf("starttls: %w", err)
		}
	}
	if s.is.User != "" {
		if ok, _ := c.Extension("AUTH"); !ok {
			return &Failure{Why: "the server takes no AUTH", Refused: true}
		}
		if err := c.Auth(smtp.PlainAuth("", s.is.User, s.is.Password, s.tls.ServerName)); err != nil {
			return fmt.Errorf("auth: %w", err)
		}
	}
	if err := c.Mail(s.is.From); err != nil {
		return err
	}
	for _, to := range s.is.To {
		if err := c.Rcpt(to); err != nil {
			return fmt.Errorf("recipient: %w", err)
		}
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(s.compose(m, now)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	_ = c.Quit() // the server has taken the mail
	return nil
}

// smtpFailure says what a server's answer means: 5xx would be the same again (RFC 5321, section 4.2.1).
func smtpFailure(err error) error {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	var said *textproto.Error
	if errors.As(err, &said) {
		return &Failure{Why: fmt.Sprintf("the server answered %d: %s", said.Code, said.Msg), Refused: said.Code/100 == 5}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &Failure{Why: "the server ended the connection"}
	}
	return &Failure{Why: plain(err)}
}

// compose writes a mail (RFC 5322). Its subject is encoded and its text is quoted-printable, so that no text of others
// can begin a header. Message-ID is the same at each try. References has the thread's id, so that a mail program shows
// all mails about one request together.
func (s mailer) compose(m message.Message, now time.Time) []byte {
	var b bytes.Buffer
	header := func(name, value string) { fmt.Fprintf(&b, "%s: %s\r\n", name, value) }
	header("From", s.is.From)
	header("To", strings.Join(s.is.To, ",\r\n\t"))
	// The encoder leaves plain ASCII as it is, and with it a name that looks encoded (RFC 2047, section 2).
	header("Subject", mime.QEncoding.Encode("utf-8", strings.ReplaceAll(message.Defang(m.Title), "=?", "= ?")))
	header("Date", now.UTC().Format("Mon, 02 Jan 2006 15:04:05 -0700"))
	header("Message-ID", mailID(m.ID))
	header("References", mailID(m.Thread))
	header("In-Reply-To", mailID(m.Thread))
	header("Auto-Submitted", "auto-generated") // RFC 3834: other programs do not answer it
	header("MIME-Version", "1.0")
	header("Content-Type", "text/plain; charset=utf-8")
	header("Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	_, _ = io.WriteString(w, strings.ReplaceAll(m.Text(), "\n", "\r\n")) // a buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

// mailID makes a Message-ID of any text.
func mailID(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "<" + hex.EncodeToString(sum[:16]) + "@gated-notify.invalid>"
}
