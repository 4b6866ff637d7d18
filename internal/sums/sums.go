// Package sums lists the SHA-256 digests of a directory's files, in the format
// of sha256sum, and checks the files against such a list.
package sums

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"gpipebench/internal/files"
)

// Name is the name of the list. It is in a directory, and has the digests of
// the files in some of its folders.
const Name = "SHA256SUMS"

// Of computes the digests of the files of a kind in some folders of a
// directory, by their names relative to it, with slashes.
func Of(dir string, k files.Kind, folders ...string) (map[string]string, error) {
	sums := map[string]string{}
	for _, folder := range folders {
		names, err := files.Below(dir, folder)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if sums[name], err = of(filepath.Join(dir, filepath.FromSlash(name)), k); err != nil {
				return nil, err
			}
		}
	}
	return sums, nil
}

// of returns a regular file's SHA-256 in hexadecimal.
func of(name string, k files.Kind) (string, error) {
	f, _, err := files.OpenRegular(name, k)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Text lists digests in the format of sha256sum.
func Text(sums map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&b, "%s  %s\n", sums[name], name)
	}
	return b.String()
}

// parse parses the result of Text. Its errors begin with the line's number.
func parse(text string) (map[string]string, error) {
	sums := map[string]string{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != sha256.Size || !fs.ValidPath(name) {
			return nil, fmt.Errorf("%d: want 64 hexadecimal digits, two spaces and a file's name", n)
		}
		sums[name] = sum
	}
	return sums, nil
}

// Check compares the files in some folders of a directory with the directory's
// list of digests. It returns the number of files that agree, and descriptions
// of those that do not. Without a list it returns nothing.
func Check(dir string, k files.Kind, folders ...string) (listed int, wrong []string, err error) {
	list := filepath.Join(dir, Name)
	text, err := files.Read(list, k)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	want, err := parse(string(text))
	if err != nil {
		return 0, []string{fmt.Sprintf("%s:%v", list, err)}, nil
	}
	have, err := Of(dir, k, folders...)
	if err != nil {
		return 0, []string{err.Error()}, nil
	}
	var changed, missing, more []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		switch sum, ok := have[name]; {
		case !ok:
			missing = append(missing, name)
		case sum != want[name]:
			changed = append(changed, name)
		default:
			listed++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if _, ok := want[name]; !ok {
			more = append(more, name)
		}
	}
	for _, w := range []struct {
		names []string
		what  string
	}{
		{changed, "does not have the digest that %s lists"},
		{missing, "is not there, but listed in %s"},
		{more, "is not listed in %s"},
	} {
		if len(w.names) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s "+w.what, files.FirstOf(dir, w.names), list))
		}
	}
	return listed, wrong, nil
}
