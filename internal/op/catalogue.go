package op

import (
	"fmt"
	"sort"
	"strings"
)

// Type is the type of a parameter.
type Type string

// The parameter types.
const (
	TString Type = "string"
	TInt    Type = "integer"
	TBool   Type = "boolean"
	TLabels Type = "labels" // an object of strings
	TLines  Type = "lines"  // an array of strings, none empty, none twice
)

// Param describes one parameter of an operation.
type Param struct {
	Name     string
	Type     Type
	Unit     string // "MiB", "CPUs", or "" where the number has none
	Min, Max int64  // for integers, both inclusive
	Required bool
	JobOnly  bool // desired state may not say it
	Doc      string
}

// Spec describes one operation.
type Spec struct {
	Name    string // "<kind>.<verb>"
	Kind    string // the target's kind
	Doc     string
	Params  []Param
	Roles   []Role // any of which may approve it when it is destructive
	Creates bool   // the target must not exist
	Free    bool   // its parameters are strings, named by the target
	Partial bool   // what the digest covers depends on the parameters
	Covers  string // what the signed state digest covers
}

const guestCovers = "name, protection, labels, memory, cpus, command, storage ids and sizes class, snapshots"

// guestFields are the fields that a guest is created with and that desired
// state may wish for. Units here are the normal form on both sides of a diff.
var guestFields = []Param{
	{Name: "memory", Type: TInt, Unit: "MiB", Min: 1, Max: 64 << 20, Doc: "memory limit"},
	{Name: "cpus", Type: TInt, Unit: "CPUs", Min: 1, Max: 4096, Doc: "CPU limit"},
	{Name: "command", Type: TString, Doc: "an entry of local.commands in gated.yaml"},
	{Name: "labels", Type: TLabels, Doc: "labels, all of them"},
	{Name: "protected", Type: TBool, Doc: "protection against destroy"},
}

func guest(verb, doc string, params ...Param) Spec {
	return Spec{Name: "guest." + verb, Kind: "guest", Doc: doc, Params: params,
		Roles: []Role{Operational}, Covers: guestCovers}
}

var snapshotParam = Param{Name: "snapshot", Type: TString, Required: true, Doc: "the snapshot's name"}

var (
	diskParam   = Param{Name: "disk", Type: TString, Required: true, Doc: "the disk, as gated guests shows it: vda, scsi0"}
	sizeParam   = Param{Name: "size", Type: TInt, Unit: "MiB", Min: 1, Max: 1 << 30, Required: true, Doc: "how large it is then"}
	backupParam = Param{Name: "backup", Type: TString, Required: true, Doc: "the backup's name, as gated guests shows it"}
)

// KindTrust is the kind of what says who may approve what. There is one of it.
const KindTrust = "trust"

// KindCommand is the kind of the entries of the operator's catalogue of commands.
const KindCommand = "command"

// Run is the one operation on them.
const Run = "command.run"

// MaxParams bounds the parameters of a step whose target names them.
const MaxParams = 32

// Rotate is the one operation that changes who decides.
const Rotate = "trust.rotate"

// MaxLines bounds the lines of a parameter of type TLines. What a rotation says
// is parsed for every look at its request.
const MaxLines = 64

// maxLinesText bounds their bytes: with them, a payload could not be signed.
const maxLinesText = MaxPayload / 2

// Signers is the one target of its kind: the trust file.
var Signers = Target{Kind: KindTrust, Name: "signers"}

// catalogue is the one table of operations. To add one, add a row, a rule in
// internal/classify and the driver's case.
var catalogue = func() map[string]Spec {
	create := guest("create", "make a guest under a free name", append([]Param{
		{Name: "state", Type: TString, Doc: "running or stopped (default stopped)"},
		{Name: "scratch", Type: TBool, JobOnly: true, Doc: "record what this makes as scratch"},
	}, guestFields...)...)
	create.Params = append(create.Params, Param{Name: "template", Type: TString, JobOnly: true,
		Doc: "an entry of the back end's templates in gated.yaml"})
	create.Creates = true
	clone := guest("clone", "make a guest under a free name that is a full copy of another",
		Param{Name: "from", Type: TString, Required: true, Doc: "the guest to copy"},
		Param{Name: "scratch", Type: TBool, JobOnly: true, Doc: "record what this makes as scratch"})
	clone.Creates = true
	run := Spec{Name: Run, Kind: KindCommand, Free: true, Partial: true, Doc: "run an entry of the operator's catalogue of commands",
		Roles: []Role{Operational}, Covers: "the program's content, its arguments and environment, and what its probe printed"}
	undelete := guest("undelete", "bring a destroyed guest back from the trash",
		Param{Name: "incarnation", Type: TString, Doc: "which one, if several are in the trash"})
	undelete.Creates = true
	rotate := Spec{Name: Rotate, Kind: KindTrust, Doc: "change who may approve what: signers is the only target",
		Params: []Param{
			{Name: "add", Type: TLines, Doc: "lines of allowed_signers to add"},
			{Name: "remove", Type: TLines, Doc: "SHA256 fingerprints of keys to take out, every line of each"},
			{Name: "epoch", Type: TInt, Min: 1, Max: MaxInt, Required: true, Doc: "the number of the file that this makes, one more than now"},
		},
		Roles: []Role{Operational, Recovery}, Covers: "the epoch and every byte of allowed_signers"}
	transfer := Spec{Name: ForceTransfer, Kind: KindScope, Doc: "give an agent's reservation to another agent", Params: []Param{
		{Name: "reservation", Type: TString, Required: true, Doc: "its id, r12"},
		{Name: "to", Type: TString, Required: true, Doc: "a registered agent's name"},
	}, Roles: []Role{Operational, Coordination}, Partial: true, Covers: "the one reservation: id, patterns, mode and holder; and which registration gets it"}
	release := Spec{Name: ReleaseAll, Kind: KindScope, Doc: "release every reservation of a scope, whoever holds it",
		Roles: []Role{Operational, Coordination}, Covers: "every reservation in force of the scope: id, patterns, mode and holder"}
	m := map[string]Spec{}
	for _, s := range []Spec{
		rotate,
		transfer,
		release,
		create,
		undelete,
		guest("start", "start a guest"),
		guest("stop", "stop a guest"),
		guest("restart", "stop and start a guest"),
		guest("set-config", "change the given fields, leave the others", guestFields...),
		guest("snapshot", "copy a guest's data under a name", snapshotParam),
		guest("snapshot-delete", "delete a snapshot", snapshotParam),
		guest("restore", "put a snapshot in the place of a guest's data", snapshotParam),
		guest("wipe", "empty a guest's data"),
		guest("destroy", "destroy a guest with its data and snapshots"),
		clone,
		guest("disk-create", "add a new, empty disk", diskParam, sizeParam),
		guest("disk-resize", "make a disk larger, or cut its end off", diskParam, sizeParam),
		guest("disk-wipe", "empty a disk", diskParam),
		guest("disk-detach", "take a disk off a guest and keep it", diskParam),
		guest("disk-delete", "delete a disk", diskParam),
		guest("backup", "copy a guest to where its backups are",
			Param{Name: "rotate", Type: TBool, Doc: "let the backups' retention delete older ones"}),
		guest("backup-restore", "put a backup in the place of a guest and its disks", backupParam),
		guest("backup-delete", "delete a backup", backupParam),
		run,
	} {
		m[s.Name] = s
	}
	return m
}()

// operatorOnly names what only the operator's configuration may say of a
// guest. As a parameter of anything it is NotAllowed rather than BadParams.
var operatorOnly = map[string]bool{"environment": true, "env": true, "user": true, "argv": true, "mounts": true,
	"mount": true, "disk": true, "disks": true, "path": true}

// Lookup returns the operation of that exact name; else it refuses with
// UnknownOp.
func Lookup(name string) (Spec, error) {
	s, ok := catalogue[name]
	if !ok {
		return Spec{}, Refuse(UnknownOp, "there is no operation %q", name).WithHint("gated ops lists them")
	}
	return s, nil
}

// Catalogue returns every operation, sorted by name.
func Catalogue() []Spec {
	out := make([]Spec, 0, len(catalogue))
	for _, s := range catalogue {
		out = append(out, s)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// Param returns the description of the parameter name.
func (s Spec) Param(name string) (Param, bool) {
	for _, p := range s.Params {
		if p.Name == name {
			return p, true
		}
	}
	return Param{}, false
}

// MayApprove reports whether role may approve the operation.
func (s Spec) MayApprove(role Role) bool {
	for _, r := range s.Roles {
		if r == role {
			return true
		}
	}
	return false
}

// Check refuses parameters that do not fit: BadParams for an unknown or
// missing one or a wrong type or range, NotAllowed for what only the operator's
// configuration may say, Malformed for a target's name that is none and for text
// that would not show as it is, Oversized for labels beyond MaxLabels.
func (s Spec) Check(t Target, p Params) error {
	if t.Kind != s.Kind {
		return Refuse(BadParams, "%s acts on a %s, not on %q", s.Name, s.Kind, t.String())
	}
	// A target that was put together rather than parsed has its name unchecked.
	if err := CheckName(t.Name); err != nil {
		return err
	}
	if t.Kind == KindTrust && t != Signers {
		return Refuse(BadParams, "%s acts on %s alone, not on %s", s.Name, Signers, t)
	}
	if s.Free {
		return s.checkFree(p)
	}
	for _, name := range sortedKeys(p) {
		d, ok := s.Param(name)
		switch {
		case ok:
			if err := d.check(s.Name, p[name]); err != nil {
				return err
			}
		case operatorOnly[name]:
			return Refuse(NotAllowed, "%s: %q is for the operator's configuration alone", s.Name, name).
				WithHint("name an entry of local.commands with command")
		default:
			return Refuse(BadParams, "%s has no parameter %q", s.Name, name).WithHint("gated ops lists the parameters")
		}
	}
	for _, d := range s.Params {
		if d.Required && !p.Has(d.Name) {
			return Refuse(BadParams, "%s needs the parameter %q", s.Name, d.Name)
		}
	}
	return nil
}

// checkFree checks what can be said without the target's own words: names, and
// text that shows as it is. Its driver checks the rest.
func (s Spec) checkFree(p Params) error {
	if len(p) > MaxParams {
		return Refuse(BadParams, "%s has %d parameters, more than %d", s.Name, len(p), MaxParams)
	}
	for _, name := range sortedKeys(p) {
		if CheckName(name) != nil {
			return Refuse(BadParams, "%s: %q is not the name of a parameter", s.Name, Shown(name))
		}
		str, ok := p[name].(string)
		if !ok {
			return Refuse(BadParams, "%s: %s is not a string", s.Name, name).WithHint("numbers are written as text too: \"42\"")
		}
		if err := CheckText(s.Name+": "+name, str); err != nil {
			return err
		}
	}
	return nil
}

func (d Param) check(op string, v any) error {
	bad := func(why string) error { return Refuse(BadParams, "%s: %s %s", op, d.Name, why) }
	switch d.Type {
	case TString:
		str, ok := v.(string)
		if !ok {
			return bad("is not a string")
		}
		return d.checkString(op, str, bad)
	case TInt:
		if n, ok := v.(int64); !ok {
			return bad("is not an integer")
		} else if n < d.Min || n > d.Max {
			return bad(strings.TrimSpace(fmt.Sprintf("is %d, outside %d to %d %s", n, d.Min, d.Max, d.Unit)))
		}
	case TBool:
		if _, ok := v.(bool); !ok {
			return bad("is not true or false")
		}
	case TLabels:
		m, ok := v.(map[string]any)
		if !ok {
			return bad("is not an object of strings")
		}
		size := 0
		for k, e := range m {
			str, ok := e.(string)
			if !ok || CheckName(k) != nil {
				return bad("is not an object of names and strings")
			}
			if err := CheckText(op+": the label "+k, str); err != nil {
				return err
			}
			size += len(k) + len(str)
		}
		if size > MaxLabels {
			return Refuse(Oversized, "%s: %s have %d bytes of text, more than %d", op, d.Name, size, MaxLabels)
		}
	case TLines:
		return checkLines(op+": "+d.Name, v, bad)
	}
	return nil
}

// checkString checks a text by what the parameter of that name means.
func (d Param) checkString(op, str string, bad func(string) error) error {
	if err := CheckText(op+": "+d.Name, str); err != nil {
		return err
	}
	switch d.Name {
	case "reservation":
		if _, err := ParseReservationID(str); err != nil {
			return bad("is not the id of a reservation like r12")
		}
	case "snapshot", "command", "to", "template", "from", "disk", "backup":
		// An empty command is the wish for a guest without a process.
		if d.Name == "command" && str == "" {
			return nil
		}
		if CheckName(str) != nil {
			return bad("is not a name ([A-Za-z0-9][A-Za-z0-9._-]{0,127})")
		}
	case "state":
		if str != "running" && str != "stopped" {
			return bad("is neither running nor stopped")
		}
	}
	return nil
}

func checkLines(what string, v any, bad func(string) error) error {
	list, ok := v.([]any)
	if !ok {
		return bad("is not an array of strings")
	}
	if len(list) > MaxLines {
		return bad(fmt.Sprintf("has %d lines, more than %d", len(list), MaxLines))
	}
	seen, size := map[string]bool{}, 0
	for _, e := range list {
		line, ok := e.(string)
		if !ok || line == "" {
			return bad("is not an array of strings with something in them")
		}
		if seen[line] {
			return bad("has a line twice")
		}
		seen[line] = true
		if size += len(line); size > maxLinesText {
			return Refuse(Oversized, "%s has more than %d bytes", what, maxLinesText)
		}
		if err := CheckText(what, line); err != nil {
			return err
		}
	}
	return nil
}

func sortedKeys(p Params) []string {
	keys := make([]string, 0, len(p))
	for k := range p {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
