package claims

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpipebench/experiments/records"
	"gpipebench/internal/files"
)

// sumsName is the file in a directory of results that lists the digest of every
// file of records and tables, as sha256sum writes it. A record's own sum is no
// signature: who changes records, their sums and the tables made from them is
// found by this list alone, where it is kept (as by commits) out of his reach.
const sumsName = "SHA256SUMS"

// resultDirs are what sumsName is about.
var resultDirs = []string{"records", "tables"}

// resultKind is what a file of results may be.
var resultKind = files.Kind{What: "a file of results", Bytes: records.RecordsKind.Bytes}

// sumsOf computes the digests of a directory's records and tables by their names
// below it, with slashes.
func sumsOf(dir string) (map[string]string, error) {
	sums := map[string]string{}
	for _, sub := range resultDirs {
		names, err := filesBelow(dir, sub)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if sums[name], err = sumOf(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
				return nil, err
			}
		}
	}
	return sums, nil
}

// filesBelow lists what is in a directory of results and below, but directories
// and what a process that was killed may have left unfinished. A directory that
// is not there has nothing.
func filesBelow(dir, sub string) (names []string, err error) {
	err = fs.WalkDir(os.DirFS(dir), sub, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name == sub {
			return fs.SkipAll
		}
		if err != nil || d.IsDir() {
			return err
		}
		if !files.Unfinished(d.Name()) {
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// sumOf is a regular file's SHA-256 in hexadecimal digits.
func sumOf(name string) (string, error) {
	f, _, err := files.OpenRegular(name, resultKind)
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

// writeSums writes digests as sha256sum does.
func writeSums(sums map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&b, "%s  %s\n", sums[name], name)
	}
	return b.String()
}

// parseSums reads what writeSums writes. Its error begins with the line's number.
func parseSums(text string) (map[string]string, error) {
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

// checkSums holds a directory against its list of digests, and says what is
// wrong, and how many files are as listed. Without a list nothing is.
func checkSums(dir string) (listed int, wrong []string, err error) {
	list := filepath.Join(dir, sumsName)
	text, err := files.Read(list, resultKind)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	want, err := parseSums(string(text))
	if err != nil {
		return 0, []string{fmt.Sprintf("%s:%v", list, err)}, nil
	}
	have, err := sumsOf(dir)
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
			wrong = append(wrong, fmt.Sprintf("%s "+w.what, firstOf(dir, w.names), list))
		}
	}
	return listed, wrong, nil
}

// firstOf names the first of some files of a directory, and how many more there
// are.
func firstOf(dir string, names []string) string {
	text := filepath.Join(dir, filepath.FromSlash(names[0]))
	if more := len(names) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}
