package settings

import (
	"net"
	"net/mail"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/strictyaml"
	"gated/internal/notify/message"
)

// reader reads one notify.yaml.
type reader struct {
	files   func(path string, private bool) ([]byte, error)
	refused error // the first file that was refused
}

func (r *reader) settings(root strictyaml.Value) Settings {
	s := Settings{Socket: r.path(root.Get("socket")), State: r.path(root.Get("state")), Reach: r.reach(root.Get("reach")), Console: r.console(root.Get("console")),
		Unreachable: root.Get("unreachable_after").Duration(5*time.Minute, 10*time.Second, 24*time.Hour)}
	if v := root.Get("backups"); v.Present() {
		s.Backups = &Backups{Dir: r.path(v.Need("dir")), Older: v.Need("older_than").Duration(0, time.Minute, 8784*time.Hour)}
	}
	sinks := root.Need("sinks")
	for name, v := range sinks.Each() {
		if op.CheckName(name) != nil {
			v.Fail("%q is not a name ([A-Za-z0-9][A-Za-z0-9._-]{0,127})", name)
		}
		s.Sinks = append(s.Sinks, r.sink(name, v))
	}
	if sinks.Sound() && len(s.Sinks) == 0 || len(s.Sinks) > MaxSinks {
		sinks.Fail("sinks has %d entries, not 1 to %d", len(s.Sinks), MaxSinks)
	}
	if sinks.Sound() {
		escalations(sinks, s)
	}
	return s
}

func (r *reader) sink(name string, v strictyaml.Value) Sink {
	s := Sink{Name: name, Alarms: v.Get("alarms").Bool(), Details: message.NoDetails,
		GiveUp:  v.Get("give_up").Duration(24*time.Hour, time.Minute, 30*24*time.Hour),
		Timeout: v.Get("timeout").Duration(10*time.Second, time.Second, 2*time.Minute),
		Digest:  Digest{20, 5 * time.Minute}}
	if e := v.Get("details"); e.Present() {
		s.Details = message.Details(e.OneOf("none", "params", "all"))
	}
	for _, e := range v.Get("roles").List() {
		s.Roles = append(s.Roles, op.Role(named(e)))
	}
	for _, e := range v.Get("principals").List() {
		s.Principals = append(s.Principals, text(e, 255))
	}
	for _, e := range v.Get("for").List() {
		if !requester().MatchString(e.Text()) {
			e.Fail("%q is neither uid:NUMBER, uid:NUMBER@MEMBER nor agent:NAME", e.Text())
		}
		s.For = append(s.For, e.Text())
	}
	if e := v.Get("escalate"); e.Present() {
		s.Escalate = &Escalate{e.Need("after").Duration(0, time.Second, 30*24*time.Hour), named(e.Need("to"))}
	}
	if d := v.Get("digest"); d.Present() {
		s.Digest = Digest{int(d.Need("more_than").Int(1, 10_000)), d.Need("within").Duration(0, time.Second, 24*time.Hour)}
	}
	if len(s.Roles)+len(s.Principals)+len(s.For) == 0 && !s.Alarms {
		v.Lacks("the sink %s gets nothing: say roles, principals, for or alarms", name)
	}
	if s.Escalate != nil && len(s.Roles)+len(s.Principals) == 0 {
		v.Lacks("the sink %s escalates nothing: say for which roles or principals", name)
	}
	r.kind(v, &s)
	return s
}

// kind reads where the sink's messages go.
func (r *reader) kind(v strictyaml.Value, s *Sink) {
	n := 0
	for key, read := range map[string]func(strictyaml.Value){
		"webhook": func(v strictyaml.Value) { s.Webhook = r.webhook(v) },
		"ntfy":    func(v strictyaml.Value) { s.Ntfy = r.ntfy(v) },
		"smtp":    func(v strictyaml.Value) { s.SMTP = r.smtp(v) },
		"exec":    func(v strictyaml.Value) { s.Exec = r.exec(v) },
	} {
		if e := v.Get(key); e.Present() {
			n++
			read(e)
		}
	}
	switch {
	case n == 0:
		v.Lacks("the sink %s has none of webhook, ntfy, smtp and exec", s.Name)
	case n > 1:
		v.Fail("the sink %s has %d of webhook, ntfy, smtp and exec, not one", s.Name, n)
	}
}

// complete reports whether everything was read so far. Else a secret may be missing for another reason.
func (r *reader) complete(v strictyaml.Value) bool { return r.refused == nil && v.Sound() }

func (r *reader) webhook(v strictyaml.Value) *Webhook {
	w := &Webhook{URL: r.url(v, "url", "url_file"), Token: r.secret(v.Get("token_file")), CA: r.file(v.Get("ca_file"), false)}
	if text := r.secret(v.Get("secret_file")); text != "" {
		key, err := WebhookSecret(text)
		if err != nil {
			v.Get("secret_file").Fail("%v", err)
		}
		w.Secret = key
	}
	if e := v.Get("template"); e.Present() {
		w.Template = e.OneOf("slack", "matrix", "telegram", "teams")
	}
	if u := v.Get("url"); u.Present() && slices.Contains([]string{"slack", "telegram", "teams"}, w.Template) {
		u.Fail("an address of %s is a secret: put it into a file, and name that with url_file", w.Template)
	}
	if e := v.Get("chat"); e.Present() || w.Template == "telegram" {
		w.Chat = text(v.Need("chat"), 64)
	}
	if e := v.Get("room"); e.Present() || w.Template == "matrix" {
		w.Room = text(v.Need("room"), 255)
	}
	if w.Template == "matrix" && w.Token == "" && r.complete(v) {
		v.Fail("matrix needs token_file, the access token of the user who writes")
	}
	return w
}

func (r *reader) ntfy(v strictyaml.Value) *Ntfy {
	n := &Ntfy{URL: r.url(v, "url", ""), Token: r.secret(v.Get("token_file")), CA: r.file(v.Get("ca_file"), false)}
	switch file := v.Get("topic_file"); {
	case file.Present() && v.Get("topic").Present():
		file.Fail("topic and topic_file each name a topic: say one")
	case file.Present():
		n.Topic = r.secret(file)
	default:
		n.Topic = text(v.Need("topic"), 64)
	}
	if r.complete(v) && !topic().MatchString(n.Topic) {
		v.Fail("the topic is not 1 to 64 of A-Z, a-z, 0-9, _ and -")
	}
	return n
}

func (r *reader) smtp(v strictyaml.Value) *SMTP {
	m := &SMTP{Server: text(v.Need("server"), 300), TLS: "starttls", User: text(v.Get("user"), 255),
		Password: r.secret(v.Get("password_file")), From: address(v.Need("from")), CA: r.file(v.Get("ca_file"), false)}
	host, port, err := net.SplitHostPort(m.Server)
	if err != nil || host == "" || port == "" {
		v.Get("server").Fail("server is not HOST:PORT")
	}
	if e := v.Get("tls"); e.Present() {
		m.TLS = e.OneOf("starttls", "implicit", "none")
	}
	if m.TLS == "none" && !loopback(host) {
		v.Get("tls").Fail("tls: none is for a server on this machine, 127.0.0.1 or ::1")
	}
	if (m.User == "") != (m.Password == "") && r.complete(v) {
		v.Fail("user and password_file belong together")
	}
	for _, e := range v.Need("to").List() {
		m.To = append(m.To, address(e))
	}
	if to := v.Get("to"); to.Present() && (len(m.To) == 0 || len(m.To) > 50) {
		to.Fail("to has %d addresses, not 1 to 50", len(m.To))
	}
	return m
}

func (r *reader) exec(v strictyaml.Value) *Exec {
	e := &Exec{}
	argv := v.Need("argv")
	for _, arg := range argv.List() {
		e.Argv = append(e.Argv, text(arg, 4096))
	}
	if argv.Present() && (len(e.Argv) == 0 || !filepath.IsAbs(e.Argv[0])) {
		v.Fail("argv begins with the absolute path of a program")
	}
	return e
}

// escalations checks that each leads to another sink of people, and none in a circle.
func escalations(v strictyaml.Value, s Settings) {
	for _, from := range s.Sinks {
		seen := []string{from.Name}
		for at := from; at.Escalate != nil; {
			to := s.Find(at.Escalate.To)
			switch {
			case to == nil:
				v.Fail("%s escalates to %s, and there is no such sink", at.Name, at.Escalate.To)
				return
			case slices.Contains(seen, to.Name):
				v.Fail("%s escalates in a circle: %s", from.Name, strings.Join(append(seen, to.Name), ", "))
				return
			case len(to.Roles)+len(to.Principals) == 0:
				v.Fail("%s escalates to %s, which has neither roles nor principals", at.Name, to.Name)
				return
			}
			seen = append(seen, to.Name)
			at = *to
		}
	}
}

// Targets returns the names of the sinks to which others escalate. They get a request only then.
func (s Settings) Targets() map[string]bool {
	out := map[string]bool{}
	for _, one := range s.Sinks {
		if one.Escalate != nil {
			out[one.Escalate.To] = true
		}
	}
	return out
}

func address(v strictyaml.Value) string {
	s := text(v, 254)
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s {
		v.Fail("%q is not a mail address such as ops@example.com", s)
	}
	return s
}
