package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// licenceFile are the names of files that say under which conditions a module may be used. Of
// FreeType's two licences, of which a user may choose, its own is taken.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)|^ftl\.txt$`)

// attributed are modules whose licence asks for more than its text.
var attributed = map[string]string{
	"github.com/ajstarks/svgo": "SVGo, by Anthony Starks, https://github.com/ajstarks/svgo, licensed under CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/). Used without changes.",
}

// notices are of algorithms in this program's own code that came with one.
const notices = `
Log and Log1p of internal/kernel/exactmath have the method and coefficients of FreeBSD's msun:

Copyright (C) 1993 by Sun Microsystems, Inc. All rights reserved.
Developed at SunPro, a Sun Microsystems, Inc. business.
Permission to use, copy, modify, and distribute this software is freely granted, provided that
this notice is preserved.

Sin and Cos have those of the Cephes Mathematical Library, release 2.8, copyright 1984 to 2000 by
Stephen L. Moshier: "What you see here may be used freely but it comes with no support or guarantee."
`

// The list of licences has those of all modules that are in the program, on the systems that
// it is built for, in the versions of go.mod.
func TestLicences(t *testing.T) {
	testkit.CI(t)
	dirs := map[string]string{}
	for _, system := range []string{"linux", "windows", "darwin", "freebsd"} {
		list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", ".")
		list.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0")
		out := testkit.Must(list.Output())(t)
		for line := range strings.Lines(string(out)) {
			if module, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
				dirs[module] = dir
			}
		}
	}
	modules := []string{}
	for module := range dirs {
		modules = append(modules, module)
	}
	slices.Sort(modules)
	var b bytes.Buffer
	fmt.Fprintf(&b, "What is in gpipebench besides its own code, and under which licences.\n%s", notices)
	add := func(what, dir string) {
		fmt.Fprintf(&b, "\n%s\n\n%s\n", strings.Repeat("=", 80), what)
		name, _, _ := strings.Cut(what, " ")
		if of := attributed[name]; of != "" {
			fmt.Fprintf(&b, "%s\n", of)
		}
		found := 0
		for _, pattern := range []string{"*", "licenses/*"} {
			files := testkit.Must(filepath.Glob(filepath.Join(dir, pattern)))(t)
			for _, file := range files {
				st, err := os.Stat(file)
				if err != nil || st.IsDir() || !licenceFile.MatchString(filepath.Base(file)) || strings.HasSuffix(file, ".go") {
					continue
				}
				text := testkit.Must(os.ReadFile(file))(t)
				found++
				var lines []string
				for line := range strings.Lines(string(text)) {
					lines = append(lines, strings.TrimRight(line, " \t\r\n\f"))
				}
				fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(strings.Join(lines, "\n")))
			}
		}
		if found == 0 {
			t.Errorf("%s has no licence", what)
		}
	}
	root := testkit.Must(exec.Command("go", "env", "GOROOT").Output())(t)
	add("Go's library", strings.TrimSpace(string(root)))
	for _, module := range modules {
		add(module, dirs[module])
	}
	if *update {
		testkit.NoError(t, os.WriteFile("licences.txt", b.Bytes(), 0o666))
		return
	}
	testkit.Equal(t, b.String(), licences, "licences.txt is not what go.mod and the modules say: want go test ./cmd/gpipebench -run TestLicences -update")
	testkit.Has(t, licences, "Anthony Starks", "The FreeType Project LICENSE", "gonum.org/v1/gonum v")
}
