package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/tlog"

	"gated/internal/base/op"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

const manifestName = "manifest.json"

// file is a file in the tar.
type file struct {
	name string
	body []byte
}

// tilePath returns the number of a tile as c2sp.org/tlog-tiles writes it: x001/x234/067.
func tilePath(n int64) string {
	path := fmt.Sprintf("%03d", n%1000)
	for n /= 1000; n > 0; n /= 1000 {
		path = fmt.Sprintf("x%03d/%s", n%1000, path)
	}
	return path
}

// files returns all files but the manifest, in their order.
func (s *Segment) files() (out []file, err error) {
	leaves := s.leaves()
	for i := 0; i < len(s.Texts); i += audit.TileWidth {
		n := (s.First - 1 + int64(i)) / audit.TileWidth
		var bundle, tile []byte
		for j := i; j < min(i+audit.TileWidth, len(s.Texts)); j++ {
			if len(s.Texts[j]) > audit.MaxEntry {
				return nil, fmt.Errorf("entry %d has more than %d bytes", s.First+int64(j), audit.MaxEntry)
			}
			bundle = binary.BigEndian.AppendUint16(bundle, uint16(len(s.Texts[j])))
			bundle = append(bundle, s.Texts[j]...)
			tile = append(tile, leaves[j][:]...)
		}
		out = append(out, file{"tile/entries/" + tilePath(n), bundle}, file{"tile/0/" + tilePath(n), tile})
	}
	for _, d := range s.Rows {
		text, err := encodeRows(d)
		if err != nil {
			return nil, err
		}
		out = append(out, file{"rows/" + d.Table, text})
	}
	return out, nil
}

// content returns the tar of a segment. Equal segments have equal bytes.
func (s *Segment) content() ([]byte, error) {
	files, err := s.files()
	if err != nil {
		return nil, err
	}
	m := s.Manifest
	m.Parts = []Part{}
	for _, f := range files {
		m.Parts = append(m.Parts, Part{f.name, int64(len(f.body)), op.SHA256(f.body)})
	}
	s.Parts = m.Parts
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the manifest: %w", err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range slices.Insert(files, 0, file{manifestName, append(text, '\n')}) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Size: int64(len(f.body)), Mode: 0o600, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.body); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if b.Len() > MaxBytes {
		return nil, fmt.Errorf("segment %d has more than %d bytes", s.Number, MaxBytes)
	}
	return b.Bytes(), nil
}

// Encode returns the bytes of a segment's file.
func (s *Segment) Encode() ([]byte, error) {
	content, err := s.content()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// ParseSegment reads a segment's file and checks all of it: digests, entries, links, tiles, the tree's root, and that its
// rows are those of its jobs. Of each segment there is one content alone that it takes.
func ParseSegment(b []byte) (*Segment, error) {
	content, err := decompress(b)
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	files, err := untar(content)
	if err != nil {
		return nil, err
	}
	s := &Segment{}
	if len(files) == 0 || files[0].name != manifestName {
		return nil, errors.New("its first file is not the manifest")
	}
	if err := json.Unmarshal(files[0].body, &s.Manifest, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("decode the manifest: %w", err)
	}
	if err := s.take(files[1:]); err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	said := s.Parts
	again, err := s.content()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, content) || !slices.Equal(said, s.Parts) {
		return nil, errors.New("it is not written as a gate writes it")
	}
	return s, nil
}

// decompress reads one gzip member, with nothing after it.
func decompress(b []byte) ([]byte, error) {
	in := bytes.NewReader(b)
	r, err := gzip.NewReader(in)
	if err != nil {
		return nil, err
	}
	r.Multistream(false)
	content, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(content) > MaxBytes:
		return nil, fmt.Errorf("it has more than %d bytes", MaxBytes)
	case in.Len() > 0:
		return nil, errors.New("bytes follow it")
	}
	return content, nil
}

func untar(content []byte) (out []file, err error) {
	r := tar.NewReader(bytes.NewReader(content))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg || len(out) > 2*MaxTiles+16 {
			return nil, errors.New("it has other files than a segment has")
		}
		body, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		out = append(out, file{h.Name, body})
	}
}

// take reads the files after the manifest, in their order.
func (s *Segment) take(files []file) error {
	if len(files) != len(s.Parts) {
		return fmt.Errorf("it has %d files, and its manifest names %d", len(files), len(s.Parts))
	}
	for i, f := range files {
		if p := s.Parts[i]; p.Name != f.name || p.Bytes != int64(len(f.body)) || p.SHA256 != op.SHA256(f.body) {
			return fmt.Errorf("%s is not what its manifest says", op.Shown(f.name))
		}
		var err error
		switch {
		case strings.HasPrefix(f.name, "tile/entries/"):
			err = s.takeBundle(f.body)
		case strings.HasPrefix(f.name, "tile/0/"):
			err = s.compareTile(f.body)
		case strings.HasPrefix(f.name, "rows/"):
			var d journal.Dump
			d, err = decodeRows(strings.TrimPrefix(f.name, "rows/"), f.body)
			s.Rows = append(s.Rows, d)
		default:
			err = errors.New("a segment has no such file")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", op.Shown(f.name), err)
		}
	}
	return nil
}

func (s *Segment) takeBundle(b []byte) error {
	texts, err := decodeBundle(b)
	s.Texts = append(s.Texts, texts...)
	return err
}

// decodeBundle reads a whole entry bundle: each entry after its length, two bytes, big-endian.
func decodeBundle(b []byte) (out [][]byte, err error) {
	for len(b) > 0 {
		if len(b) < 2 || len(b)-2 < int(binary.BigEndian.Uint16(b)) {
			return nil, errors.New("an entry is cut")
		}
		n := 2 + int(binary.BigEndian.Uint16(b))
		out = append(out, b[2:n:n])
		b = b[n:]
	}
	if len(out) != audit.TileWidth {
		return nil, fmt.Errorf("it has %d entries", len(out))
	}
	return out, nil
}

// compareTile compares a tile of leaf hashes with the entries that were read last.
func (s *Segment) compareTile(b []byte) error {
	if len(b) != audit.TileWidth*tlog.HashSize || len(s.Texts) < audit.TileWidth {
		return errors.New("it is no whole tile")
	}
	for i, text := range s.Texts[len(s.Texts)-audit.TileWidth:] {
		if tlog.RecordHash(text) != tlog.Hash(b[i*tlog.HashSize:][:tlog.HashSize]) {
			return errors.New("its hashes are not those of the entries")
		}
	}
	return nil
}
