package browser

import (
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/webauthn"
)

// Kind says what a virtual authenticator is like.
type Kind struct {
	Verifies   bool // it knows its holder by a PIN or a finger
	Synced     bool // its passkeys are kept in an account, and on other devices
	Internal   bool // it is part of the device; otherwise it is on USB
	Extensions bool // it keeps a blob beside a passkey and says it in its extension data
}

// The kinds that people have.
var (
	Phone       = Kind{Verifies: true, Synced: true, Internal: true}
	SecurityKey = Kind{Verifies: true}
	BlobKey     = Kind{Verifies: true, Synced: true, Extensions: true}
)

// Authenticator is a virtual authenticator of one tab.
type Authenticator struct {
	tab *Tab
	id  webauthn.AuthenticatorID
}

// Authenticator plugs an authenticator into the tab. It stays when the tab opens another
// address. A person is always there to touch it.
func (p *Tab) Authenticator(k Kind) *Authenticator {
	p.t.Helper()
	call(p, webauthn.Enable, webauthn.EnableParams{})
	options := webauthn.VirtualAuthenticatorOptions{
		Protocol: webauthn.AuthenticatorProtocolCtap2, Ctap2version: webauthn.Ctap2versionCtap21,
		Transport: webauthn.AuthenticatorTransportUsb, HasResidentKey: true,
		HasUserVerification: k.Verifies, IsUserVerified: k.Verifies,
		HasCredBlob: k.Extensions, AutomaticPresenceSimulation: true,
		DefaultBackupEligibility: k.Synced, DefaultBackupState: k.Synced,
	}
	if k.Internal {
		options.Transport = webauthn.AuthenticatorTransportInternal
	}
	made := call(p, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &options})
	return &Authenticator{tab: p, id: made.AuthenticatorID}
}

// Touch says if a person touches the authenticator when it asks. Without, it waits.
func (a *Authenticator) Touch(yes bool) {
	a.tab.t.Helper()
	call(a.tab, webauthn.SetAutomaticPresenceSimulation,
		webauthn.SetAutomaticPresenceSimulationParams{AuthenticatorID: a.id, Enabled: yes})
}

// Unverified says if the authenticator signs without a look at its holder: a touch is enough
// then.
func (a *Authenticator) Unverified(yes bool) {
	a.tab.t.Helper()
	call(a.tab, webauthn.SetResponseOverrideBits,
		webauthn.SetResponseOverrideBitsParams{AuthenticatorID: a.id, IsBadUV: new(yes)})
}

// Passkeys returns the passkeys that the authenticator holds, with their private keys.
func (a *Authenticator) Passkeys() []*webauthn.Credential {
	a.tab.t.Helper()
	return call(a.tab, webauthn.GetCredentials, webauthn.GetCredentialsParams{AuthenticatorID: a.id}).Credentials
}

// Add puts a passkey of another authenticator into this one, as a synced account does.
func (a *Authenticator) Add(passkey *webauthn.Credential) {
	a.tab.t.Helper()
	call(a.tab, addCredential, credential{a.id, map[string]any{
		"credentialId": passkey.CredentialID, "isResidentCredential": true, "rpId": passkey.RpID,
		"privateKey": passkey.PrivateKey, "userHandle": passkey.UserHandle, "signCount": passkey.SignCount,
		"backupEligibility": passkey.BackupEligibility, "backupState": passkey.BackupState,
	}})
}

// credential has the members of a passkey that chromium takes back. The library would
// send another one, which chromium refuses.
type credential struct {
	ID         webauthn.AuthenticatorID `json:"authenticatorId"`
	Credential map[string]any           `json:"credential"`
}

var addCredential = cdp.Command[credential, cdp.Empty]{Method: webauthn.CommandAddCredential}
