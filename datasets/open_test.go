package datasets

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	short := filepath.Join(dir, "short")
	for file, text := range map[string]string{empty: "", short: "too short"} {
		testkit.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	for spec, want := range map[string]string{
		"":                        `data source "": unknown, ` + accepted,
		"Synthetic":               `data source Synthetic: unknown, ` + accepted,
		"synthetic:5":             `data source synthetic:5: synthetic takes no argument`,
		"text":                    `data source text: no file, want text:FILE`,
		"text:":                   `data source text:: no file, want text:FILE`,
		"book.txt":                `data source book.txt: unknown, ` + accepted,
		"a\nb":                    `data source "a\nb": unknown, ` + accepted,
		"cifar10":                 `data source cifar10: no directory, want cifar10:DIR`,
		"cifar100:":               `data source cifar100:: no directory, want cifar100:DIR`,
		"mnist:":                  `data source mnist:: no directory, want mnist:DIR`,
		"images":                  `data source images: no directory, want images:DIR`,
		"synthetic-images:x":      `data source synthetic-images:x: synthetic-images takes no argument`,
		"cifar10:/nowhere":        `cifar10: /nowhere/data_batch_1.bin: no such file or directory`,
		"cifar100:/nowhere":       `cifar100: /nowhere/train.bin: no such file or directory`,
		"mnist:/nowhere":          `mnist: /nowhere/train-images-idx3-ubyte: no such file or directory`,
		"images:/no\nwhere":       `images: "/no\nwhere": no such file or directory`,
		"parallel":                `data source parallel: want two files for each language, parallel:SRC,TGT[,SRC2,TGT2...]`,
		"parallel:":               `data source parallel:: want two files for each language, parallel:SRC,TGT[,SRC2,TGT2...]`,
		"parallel:a":              `data source parallel:a: want two files for each language, parallel:SRC,TGT[,SRC2,TGT2...]`,
		"parallel:a,":             `data source parallel:a,: want two files for each language, parallel:SRC,TGT[,SRC2,TGT2...]`,
		"parallel:a,b,c":          `data source parallel:a,b,c: want two files for each language, parallel:SRC,TGT[,SRC2,TGT2...]`,
		"parallel:/nowhere/a,b":   `parallel: /nowhere/a: no such file or directory`,
		"gettext:d,":              `data source gettext:d,: language "", want the name of a folder in d, such as fr or pt_BR`,
		"gettext:d,../fr":         `data source gettext:d,../fr: language ../fr, want the name of a folder in d, such as fr or pt_BR`,
		"gettext:d,..":            `data source gettext:d,..: language .., want the name of a folder in d, such as fr or pt_BR`,
		"gettext:d,fr,de,fr":      `data source gettext:d,fr,de,fr: language fr is named twice, want it once`,
		"gettext:,en_GB":          `data source gettext:,en_GB: language en_GB is English, want others: catalogs translate from English`,
		"gettext:/nowhere":        `gettext: /nowhere: no such file or directory`,
		"gettext:/nowhere,fr":     `gettext: /nowhere/fr/LC_MESSAGES: no such file or directory`,
		"synthetic-translation:x": `data source synthetic-translation:x: synthetic-translation takes no argument`,
		"text:/nowhere/b\nc":      `text:"/nowhere/b\nc": no such file or directory`,
		"text:" + dir:             `text:` + dir + `: is a directory, want a readable file of up to 1024 MiB`,
		"text:" + empty:           `text:` + empty + `: empty, want at least 640 bytes: the last tenth is held out and has to hold a sequence of 64`,
		"text:" + short:           `text:` + short + `: 9 bytes, want at least 640 bytes: the last tenth is held out and has to hold a sequence of 64`,
	} {
		s, err := Open(spec, Config{})
		testkit.Equal(t, fmt.Sprint(err), want)
		testkit.Equal(t, s, nil, "the source of %q", spec)
	}
	_, err := Open("text:/nowhere/b", Config{})
	testkit.Is(t, err, fs.ErrNotExist)
	testkit.Refused(Open("synthetic", Config{SeqLen: -1}))(t)
}

func FuzzOpen(f *testing.F) {
	for _, spec := range []string{"", "synthetic", "synthetic:", "text", "text:", "text:a.txt", "text:a:b", "cifar10:d", "a\nb", "\xff", "images", "synthetic-translation", "synthetic-images", "mnist:", "images:d:e", "parallel:a,b", "parallel:a,b,c", "parallel:a,,b,c", "gettext", "gettext:", "gettext:,fr", "gettext:d,fr,de", "gettext:d,.."} {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		kind, argument, err := parse(spec)
		switch {
		case err != nil:
			if m := err.Error(); strings.ContainsAny(m, "\n\r") || !strings.HasPrefix(m, "data source ") {
				t.Errorf("parse(%q): error %q", spec, m)
			}
		case (argument == "") != (kinds[kind].argument == ""):
			t.Errorf("parse(%q) = %q with argument %q", spec, kind, argument)
		case spec != kind && spec != kind+":"+argument && (kind != "gettext" || kind+":"+SystemCatalogs+strings.TrimPrefix(spec, "gettext:") != kind+":"+argument):
			t.Errorf("parse(%q) = %q, %q", spec, kind, argument)
		}
		if files := strings.Split(argument, ","); err == nil && kind == "parallel" && (len(files)%2 != 0 || slices.Contains(files, "")) {
			t.Errorf("parse(%q) accepts files %q", spec, files)
		}
		if p := printable(spec); strings.ContainsAny(p, "\n\r") {
			t.Errorf("printable(%q) = %q", spec, p)
		}
	})
}

func ExampleOpen() {
	source, err := Open("synthetic", Config{SeqLen: 32, Seed: 1})
	if err != nil {
		panic(err)
	}
	batch, err := source.Batch(Train, 0, 8)
	if err != nil {
		panic(err)
	}
	fmt.Println(source.Name(), "vocabulary", source.Vocab())
	fmt.Println("inputs", batch.Inputs[0].Shape, "targets", batch.Targets[0].Shape, "count", batch.Count)

	_, err = Open("cifar10", Config{})
	fmt.Println(err)
	// Output:
	// synthetic vocabulary 64
	// inputs [8 32] targets [8 32] count 256
	// data source cifar10: no directory, want cifar10:DIR
}
