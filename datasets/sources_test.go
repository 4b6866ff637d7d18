package datasets

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/datasets/gettext/gettexttest"
)

// lines returns n lines of a text, the i-th with its number expressed by
// repeated words.
func lines(n int, word string) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "%s%d%s\n", word, i%7, strings.Repeat(" "+word, i%5))
	}
	return out.String()
}

// Sources returns functions that open small sources of every kind, by
// specification, for the tests of the contract.
func Sources(t *testing.T) map[string]func(seed uint64) Source {
	data := map[string]string{
		"text":    filepath.Join(writeFiles(t, map[string][]byte{"a:b.txt": []byte(lines(350, "word"))}), "a:b.txt"),
		"cifar10": writeFiles(t, cifar10Files()), "cifar100": writeFiles(t, cifar100Files()),
		"parallel": strings.Join(textFiles(t, lines(240, "to"), lines(240, "von")), ","),
		"gettext":  gettexttest.Folder(t, map[string]int{"de": 60, "sr@latin": 20}),
		"mnist":    writeFiles(t, mnistFiles()), "images": writeFiles(t, folderFiles(t)),
	}
	small := smallTask()
	small.SeqLen = 16
	small.SyntheticImages = SyntheticImagesConfig{Train: 40, HeldOut: 20}
	small.Images = ImageConfig{Size: 16, Flip: true, Crop: 2, Cutout: 4}
	ragged, fresh := small, small
	ragged.Synthetic = SyntheticConfig{MinLen: 3, HeldOut: 20}
	fresh.SyntheticImages.Fresh = true
	open := func(spec string, c Config) func(uint64) Source {
		return func(seed uint64) Source {
			c.Seed = seed
			s, err := Open(spec, c)
			if err != nil || s.Name() != spec {
				t.Fatalf("%s: %v, or another name", spec, err)
			}
			return s
		}
	}
	turns, apart := small, small
	turns.Translation.Window, turns.Translation.Hosts = 3, 2
	apart.Translation.Window, apart.Translation.Hosts, apart.Translation.Apart = 2, 3, true
	all := map[string]func(uint64) Source{
		"hosts in turn": open("synthetic-translation", turns), "hosts apart": open("synthetic-translation", apart),
		"ragged": open("synthetic", ragged), "fresh": open("synthetic-images", fresh),
	}
	for kind := range kinds {
		spec := kind
		if path, ok := data[kind]; ok {
			spec += ":" + path
		}
		all[kind] = open(spec, small)
	}
	return all
}
