//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gopkg.in/yaml.v3"

	"gpipebench/internal/testkit"
)

// file is the content of a case's file: a text, or one of these.
type file struct {
	Text   string
	Repeat int    // of the text; 0: once
	Hex    string // bytes
	Copy   string // a file or directory of the repository
	Spec   string // an experiment's
	// Edit replaces texts; each must occur.
	Edit   []struct{ Old, New string }
	Append string // appended after that
	Cut    int64  // number of bytes to keep; 0: all
	Tail   string // in hex, replaces the last bytes
	Size   int64  // total size in bytes; the added ones are zeros that take no space

	Safetensors string // the header; its length is written before it
	PNG         string `yaml:"png"` // 65535x65535: the size in the header
	Gzip        int64  // this many zeros, compressed

	Empty  bool // for Damage: an empty file
	Remove bool

	Dir   bool
	Link  string // target of a symbolic link
	Pipe  bool   // a named one
	Node  string // c 1 5: a device node
	Tmpfs string // a file system of this size
	Mode  uint32
}

func (f *file) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		return n.Decode(&f.Text)
	}
	type plain file
	return n.Decode((*plain)(f))
}

// prepare makes the files of a case. If the system does not permit one of them,
// the case is skipped.
func (c *fault) prepare(t *testing.T, repository, dir string) error {
	for name, f := range c.Files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := f.make(t, path, repository); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if f.Mode != 0 {
			if err := os.Chmod(path, fs.FileMode(f.Mode)); err != nil {
				return err
			}
		}
	}
	return nil
}

// damage changes files: a file with a content of its own replaces the existing
// one; otherwise the existing content is changed.
func (c *fault) damage(dir string) error {
	for name, f := range c.Damage {
		path := filepath.Join(dir, name)
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if f.Remove {
			if err := os.Remove(path); err != nil {
				return err
			}
			continue
		}
		if f.Text == "" && f.Hex == "" && f.PNG == "" && !f.Empty {
			if b, err = f.change(b); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		} else if b, err = f.content(""); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (f *file) make(t *testing.T, path, repository string) error {
	switch {
	case f.Dir:
		return os.MkdirAll(path, 0o755)
	case f.Link != "":
		return os.Symlink(f.Link, path)
	case f.Pipe:
		return syscall.Mkfifo(path, 0o644)
	case f.Node != "":
		var major, minor int
		if _, err := fmt.Sscanf(f.Node, "c %d %d", &major, &minor); err != nil {
			return err
		}
		if err := syscall.Mknod(path, syscall.S_IFCHR|0o644, major<<8|minor); err != nil {
			t.Skipf("device nodes cannot be made here: %v", err)
		}
		open, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Skipf("device nodes cannot be opened here: %v", err)
		}
		return open.Close()
	case f.Tmpfs != "":
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if !mounted(t, path, "size="+f.Tmpfs) {
			t.Skip("a file system must be mounted")
		}
		return nil
	}
	from := filepath.Join(repository, f.Copy)
	if info, err := os.Stat(from); f.Copy != "" && err == nil && info.IsDir() {
		return os.CopyFS(path, os.DirFS(from))
	}
	b, err := f.content(from)
	if f.Spec != "" {
		b, err = f.change([]byte(specOf(f.Spec)))
	}
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		return err
	}
	if f.Size > 0 {
		return os.Truncate(path, f.Size)
	}
	return nil
}

// mounted mounts an empty file system in memory in place of a directory until the test ends. It is
// false where that is not permitted.
func mounted(t *testing.T, dir, options string) bool {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Logf("nothing can be mounted here: %v", err)
		return false
	}
	t.Cleanup(func() {
		testkit.Equal(t, syscall.Unmount(dir, syscall.MNT_DETACH), nil)
	})
	return true
}

func (f *file) content(from string) (b []byte, err error) {
	switch {
	case f.Copy != "":
		b, err = os.ReadFile(from)
	case f.Hex != "":
		b, err = hex.DecodeString(strings.ReplaceAll(f.Hex, " ", ""))
	case f.Safetensors != "":
		b = append(binary.LittleEndian.AppendUint64(nil, uint64(len(f.Safetensors))), f.Safetensors...)
	case f.PNG != "":
		var width, height uint32
		_, err = fmt.Sscanf(f.PNG, "%dx%d", &width, &height)
		b = hugePNG(width, height)
	case f.Gzip > 0:
		b, err = packed(f.Gzip)
	default:
		b = []byte(strings.Repeat(f.Text, max(f.Repeat, 1)))
	}
	if err != nil {
		return nil, err
	}
	return f.change(b)
}

// change applies the file's changes to a content.
func (f *file) change(b []byte) ([]byte, error) {
	for _, e := range f.Edit {
		if !bytes.Contains(b, []byte(e.Old)) {
			return nil, fmt.Errorf("there is no %q to replace", e.Old)
		}
		b = bytes.Replace(b, []byte(e.Old), []byte(e.New), 1)
	}
	b = append(b, f.Append...)
	if tail, err := hex.DecodeString(f.Tail); err != nil || len(tail) > len(b) {
		return nil, fmt.Errorf("%q for the last of %d bytes: %w", f.Tail, len(b), err)
	} else {
		copy(b[len(b)-len(tail):], tail)
	}
	if f.Cut > 0 {
		b = b[:min(f.Cut, int64(len(b)))]
	}
	return b, nil
}

// packed returns n zeros in gzip format: members of 16 MiB, of which it
// compresses one.
func packed(n int64) ([]byte, error) {
	var member bytes.Buffer
	w := gzip.NewWriter(&member)
	size := min(n, 16<<20)
	_, err := w.Write(make([]byte, size))
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return bytes.Repeat(member.Bytes(), int((n+size-1)/size)), nil
}

// hugePNG returns a picture that declares a size and has almost no pixels.
func hugePNG(width, height uint32) []byte {
	b := []byte("\x89PNG\r\n\x1a\n")
	chunk := func(kind string, data []byte) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
		body := append([]byte(kind), data...)
		b = binary.BigEndian.AppendUint32(append(b, body...), crc32.ChecksumIEEE(body))
	}
	header := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, width), height)
	chunk("IHDR", append(header, 8, 2, 0, 0, 0))
	chunk("IDAT", []byte("\x78\x9c\x03\x00\x00\x00\x00\x01"))
	chunk("IEND", nil)
	return b
}

// look describes everything in a directory; each description starts with the
// mode.
func look(dir string) (map[string]string, error) {
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil || path == dir {
			return err
		}
		say := info.Mode().String()
		switch stat := info.Sys().(*syscall.Stat_t); {
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			say += " to " + to
		case info.Mode()&fs.ModeDevice != 0:
			say += fmt.Sprintf(" device %d", stat.Rdev)
		case info.Mode().IsRegular() && info.Size() <= 16<<20:
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			say += fmt.Sprintf(" %d bytes %x", len(b), sha256.Sum256(b))
		case info.Mode().IsRegular():
			say += fmt.Sprintf(" %d bytes of %v", info.Size(), info.ModTime())
		}
		name, err := filepath.Rel(dir, path)
		all[name] = say
		return err
	})
	return all, err
}
