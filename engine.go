// Package gpipebench retraces the experiments of GPipe and its neighbours; the
// command is in cmd/gpipebench, the library in gpipe, nn and models.
//
// The package itself only identifies a program's engine: all that computes, from
// kernels to datasets.
package gpipebench

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"strconv"
	"strings"
	"sync"
)

// The engine's sources, by the folders that they are in.
//
//go:embed go.mod internal/kernel/*.go internal/kernel/*.s internal/kernel/exactmath/*.go
//go:embed nn/*.go nn/*/*.go nn/graph/op/*.go models/*/*.go datasets/*.go datasets/baseline/*.go datasets/gettext/*.go
//go:embed gpipe/*.go gpipe/*/*.go gpipe/transport/mpi/*.go gpipe/transport/sockets/*.go gpipe/timeline/draw/*.go gpipe/internal/*/*.go gpipe/internal/crc32c/*.s gpipe/accelerators/*.yaml
var sources embed.FS

// Engine is the digest of the engine's sources: Go tokens, assembly and accelerator
// files, without tests and Go comments. Two programs with the same engine compute
// the same. Two engines may differ in something that affects no result, so a record
// names its engine but does not depend on it.
var Engine = sync.OnceValue(func() string {
	h := sha256.New()
	err := fs.WalkDir(sources, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := sources.ReadFile(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%s\n", name)
		if !strings.HasSuffix(name, ".go") {
			h.Write(text)
			return nil
		}
		var s scanner.Scanner
		file := token.NewFileSet()
		s.Init(file.AddFile(name, -1, len(text)), text, nil, 0) // skips comments
		var tokens []byte
		for {
			_, what, literal := s.Scan()
			if what == token.EOF {
				h.Write(tokens)
				return nil
			}
			tokens = append(append(append(strconv.AppendInt(tokens, int64(what), 10), ' '), literal...), '\n')
		}
	})
	if err != nil {
		panic(err) // embedded files can always be read
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
})
