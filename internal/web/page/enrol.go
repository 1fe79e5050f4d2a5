package page

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/web/passkey"
)

// enrolIn is a new key and its trial signature.
type enrolIn struct {
	Message   string         `json:"message"`
	Assertion jsontext.Value `json:"assertion"`
	Key       string         `json:"key"` // SPKI in base64url
	Principal string         `json:"principal"`
	Role      op.Role        `json:"role"`
}

// enrolled is what the page shows of a new key. None of it is kept.
type enrolled struct {
	Line        string `json:"line"`
	Fingerprint string `json:"fingerprint"`
	Command     string `json:"command"`
	Synced      bool   `json:"synced"`
}

// flagBackup says that a passkey may leave its device (WebAuthn Level 3, section 6.1.3).
const flagBackup = 0x08

// enrol checks a trial signature of a new key as a gate would, so that a browser or vault
// whose signatures OpenSSH refuses is found before the key is listed.
func (s signing) enrol(w http.ResponseWriter, r *http.Request) {
	var in enrolIn
	if err := posted(r, &in); err != nil {
		refuse(w, err)
		return
	}
	out, err := s.tried(in)
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, out)
}

func (s signing) tried(in enrolIn) (enrolled, error) {
	message, err := bytes64(in.Message)
	if err != nil {
		return enrolled{}, err
	}
	if err := s.waiting.take(toEnrol, message); err != nil {
		return enrolled{}, err
	}
	if !in.Role.Valid() {
		return enrolled{}, refusal.New(refusal.BadParams, "%q is no role", in.Role).WithHint("the roles of a gate are those in its rules, for example operational")
	}
	if !plainName(in.Principal) {
		return enrolled{}, refusal.New(refusal.BadParams, "the name has to be like alice@example.com: letters, digits and @ . _ + -").
			WithHint("write the name under which the gate shall list you")
	}
	spki, err := bytes64(in.Key)
	if err != nil {
		return enrolled{}, err
	}
	key, err := passkey.NewKey(spki, s.RPID)
	if err != nil {
		return enrolled{}, err
	}
	a, err := passkey.DecodeAssertion(in.Assertion)
	if err != nil {
		return enrolled{}, err
	}
	line := in.Principal + ` namespaces="` + in.Role.Namespace() + `" ` + key.Line()
	if err := s.trial(key, a, message, line); err != nil {
		return enrolled{}, err
	}
	return enrolled{Line: line, Fingerprint: key.Fingerprint(), Synced: a.AuthenticatorData[flagsAt]&flagBackup != 0,
		Command: "gated trust rotate --add '" + line + `' --reason "a passkey of ` + in.Principal + `"`}, nil
}

// plainName reports whether a name needs no quotes in a line of allowed_signers or in a
// shell, and is no pattern there.
func plainName(name string) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@._+-"
	return name != "" && len(name) <= maxName && strings.Trim(name, plain) == "" && name[0] != '-'
}

// maxName is the longest name that the page takes, in bytes.
const maxName = 200

// flagsAt is the place of the flags in authenticator data, after the hash of the ID.
const flagsAt = 32

// trial refuses a signature that the gate would refuse.
func (s signing) trial(key passkey.Key, a passkey.Assertion, message []byte, line string) error {
	if _, ok := a.Made(key); !ok {
		return refusal.New(refusal.BadSignature, "the trial signature is not by the new passkey").
			WithHint("choose the new passkey when the browser asks")
	}
	_, err := s.verify(key, a, message, "", []string{line})
	return err
}
