package pvetest

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// named are the formats that the schema names without describing them, if the driver sends
// values of them. Other formats are not checked.
var named = map[string]*regexp.Regexp{
	"pve-node":       regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?$`),
	"dns-name":       regexp.MustCompile(`^([a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*$`),
	"pve-configid":   regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]+$`),
	"pve-storage-id": regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9\-_.]*[a-zA-Z0-9]$`),
	"pve-volume-id":  regexp.MustCompile(`^(/.+|[a-zA-Z][a-zA-Z0-9\-_.]*[a-zA-Z0-9]:.+)$`),
	"pve-configid-list": regexp.MustCompile(
		`^[a-zA-Z][a-zA-Z0-9_-]+([,; ]+[a-zA-Z][a-zA-Z0-9_-]+)*$`),
	"pve-tag-list":   regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_\-+.]*([,; ]+[a-zA-Z0-9_][a-zA-Z0-9_\-+.]*)*$|^$`),
	"pve-bridge-id":  regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9]{1,9}([-_.\w\d]*)$`),
	"pve-qm-smbios1": regexp.MustCompile(`^([a-z0-9]+=[^,]*)(,[a-z0-9]+=[^,]*)*$`),
	"pve-qm-boot":    regexp.MustCompile(`^([acdn]{1,4}|legacy=[acdn]{1,4}|order=[a-z0-9;]*)$`),
	"urlencoded":     regexp.MustCompile(`^[-%a-zA-Z0-9_.!~*'()]*$`),
}

func checkFormat(format, v string) error {
	re := named[format]
	if re == nil || re.MatchString(v) {
		return nil
	}
	return fmt.Errorf("invalid format - value does not look like a valid %s", format)
}

// checkParts checks a property string, "file=x,size=1G": names, types and bounds of its parts.
func checkParts(parts map[string]param, v string) error {
	seen := map[string]string{}
	for piece := range strings.SplitSeq(v, ",") {
		key, value, ok := strings.Cut(piece, "=")
		if !ok {
			key, value = defaultKey(parts), piece
		}
		p, known := parts[key]
		if known && p.KeyAlias != "" {
			seen[p.KeyAlias] = key
		}
		if known && p.Alias != "" {
			key = p.Alias
			p, known = parts[key]
		}
		if key == "" || !known {
			return fmt.Errorf("invalid format - format error\n%s: %s", key, undefinedProperty)
		}
		if _, twice := seen[key]; twice {
			return fmt.Errorf("invalid format - duplicate key in comma-separated list property: %s", key)
		}
		seen[key] = value
		if err := p.check(value); err != nil {
			return fmt.Errorf("invalid format - format error\n%s: %w", key, err)
		}
	}
	for key, p := range parts {
		if _, there := seen[key]; !there && !p.Optional && p.Alias == "" {
			return fmt.Errorf("invalid format - format error\n%s: property is missing and it is not optional", key)
		}
	}
	return nil
}

// defaultKey is the name that a property string's first part may leave out. The kept schema
// does not have it.
func defaultKey(parts map[string]param) string {
	for _, key := range []string{"file", "volume", "model", "current", "enabled"} {
		if p, ok := parts[key]; ok && p.Alias == "" {
			return key
		}
	}
	return ""
}

var compiled sync.Map // of pattern to *regexp.Regexp

// perl compiles a pattern of the schema, anchored as Proxmox VE does it. It rewrites forms that
// only Perl has.
func perl(pattern string) *regexp.Regexp {
	if re, ok := compiled.Load(pattern); ok {
		return re.(*regexp.Regexp)
	}
	p := strings.NewReplacer("(?^:", "(?:", "(?^i:", "(?i:", "(?^x:", "(?:", "{,", "{0,").Replace(pattern)
	re := regexp.MustCompile("^(?:" + p + ")$")
	compiled.Store(pattern, re)
	return re
}
