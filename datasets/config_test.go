package datasets

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gpipebench/datasets/gettext/gettexttest"
	"gpipebench/internal/testkit"
)

// Each row is a configuration of the source that opens it, and what is wrong with it: a source
// reports what Validate does.
func TestValidate(t *testing.T) {
	openers := map[string]func(Config) error{
		"synthetic": func(c Config) error {
			_, err := NewSynthetic(c)
			return err
		},
		"text": func(c Config) error {
			_, err := NewText("text", []byte(lines(150, "word")), c)
			return err
		},
		"images": func(c Config) error {
			_, err := NewSyntheticImages(c)
			return err
		},
		"translation": func(c Config) error {
			_, err := NewMultilingual(c)
			return err
		},
		"gettext": func(c Config) error {
			_, err := OpenGettext(gettexttest.Folder(t, map[string]int{"de": 60}), c)
			return err
		},
	}
	type syn = SyntheticConfig
	type img = ImageConfig
	type fig = SyntheticImagesConfig
	type tra = TranslationConfig
	type mul = MultilingualConfig
	for _, c := range []struct {
		source string
		part   any    // of a Config; an int is its SeqLen
		want   string // in the error; "" if valid
	}{
		{"synthetic", 0, ""},
		{"synthetic", 2, ""},
		{"synthetic", 1, "sequence length 1, want 2 or more"},
		{"synthetic", -1, "sequence length -1, want 1 to 1048576"},
		{"synthetic", 1<<20 + 1, "sequence length 1048577"},
		{"text", -1, "sequence length -1, want 1 to 1048576"},
		{"synthetic", syn{Vocab: 256, Successors: 8, HeldOut: 1, MinLen: 1}, ""},
		{"synthetic", syn{Vocab: 2, Successors: 2}, ""},
		{"synthetic", syn{Vocab: 62}, "vocabulary 62, want a multiple of the 4 successors"},
		{"synthetic", syn{Vocab: -64}, "vocabulary -64"},
		{"synthetic", syn{Vocab: 1 << 17}, "up to 65536"},
		{"synthetic", syn{Successors: 1}, "1 successors, want 2 to 256"},
		{"synthetic", syn{Vocab: 1024, Successors: 512}, "512 successors"},
		{"synthetic", syn{HeldOut: -1}, "-1 held-out sequences, want 1 to"},
		{"synthetic", syn{MinLen: 65}, "shortest sequence 65, want 1 to the sequence length 64"},
		{"synthetic", syn{MinLen: -1}, "shortest sequence -1"},

		{"images", 0, ""},
		{"images", img{Size: 16, Flip: true, Crop: 8, Cutout: 16}, ""},
		{"images", img{Size: 7}, "images: 7 pixels a side, want 8 to 1024"},
		{"images", img{Size: -1}, "images: -1 pixels a side"},
		{"images", img{Size: 1025}, "images: 1025 pixels a side"},
		{"images", img{Crop: 17}, "images: crop from a margin of 17 pixels, want 0 to 16, half the size"},
		{"images", img{Crop: -1}, "margin of -1"},
		{"images", img{Cutout: 33}, "images: cutout of 33 pixels, want 0 to the size, 32"},
		{"images", img{Cutout: -1}, "cutout of -1"},
		{"images", img{HeldOutOf: 2}, ""},
		{"images", img{HeldOutOf: 1}, "images: one of 1 images held out, want one of 2 to 1000"},
		{"images", img{HeldOutOf: 1001}, "one of 1001 images"},
		{"images", fig{Classes: 20, Train: 1, HeldOut: 1, Noise: 1}, ""},
		{"images", fig{Classes: 5, First: 15}, ""},
		{"images", fig{Classes: 5, First: 16}, "5 classes from figure 16 on, want 0 to 15, since there are 20 figures"},
		{"images", fig{Classes: 5, First: -1}, "from figure -1 on"},
		{"images", fig{Classes: 1}, "synthetic-images: 1 classes, want 2 to 20"},
		{"images", fig{Classes: 21}, "21 classes"},
		{"images", fig{Train: -1}, "synthetic-images: -1 training images, want 1 to 16777216"},
		{"images", fig{HeldOut: -1}, "synthetic-images: -1 held-out images, want 1 to 1048576"},
		{"images", fig{Noise: -0.1}, "synthetic-images: noise -0.1, want above 0 and up to 1"},
		{"images", fig{Noise: math.NaN()}, "noise NaN"},

		{"translation", mul{Languages: 9}, "synthetic-translation: 9 languages, want 1 to 8"},
		{"translation", mul{Pairs: -1}, "synthetic-translation: -1 pairs, want 1 to 1048576"},
		{"translation", mul{Nouns: 3}, "synthetic-translation: 3 nouns, want 4 to 1024"},
		{"translation", tra{Temperature: 0.5}, "translation: temperature 0.5, want 1 or more"},
		{"translation", tra{Temperature: math.NaN()}, "translation: temperature NaN, want 1 or more"},
		{"translation", tra{Shapes: 65}, "translation: 65 shapes, want 1 to 64"},
		{"translation", tra{HeldOut: -1}, "translation: -1 held-out pairs, want 1 to 1048576"},
		{"translation", tra{Vocab: 5}, "translation: vocabulary 5, want 6 to 65536"},
		{"translation", tra{Noise: 1.5}, "translation: noise 1.5, want 0 to 1"},
		{"translation", tra{Noise: math.NaN()}, "translation: noise NaN, want 0 to 1"},
		{"translation", tra{Window: -1}, "translation: windows of -1 mini-batches, want 0 to 65536"},
		{"translation", tra{Window: 1 << 17}, "translation: windows of 131072 mini-batches, want 0 to 65536"},
		{"translation", tra{Window: 1, Hosts: -1}, "translation: -1 hosts, want 1 to 4096"},
		{"translation", tra{Hosts: 2}, "translation: hosts without windows, want a window of 1 or more mini-batches"},
		{"translation", tra{Apart: true}, "translation: hosts without windows, want a window of 1 or more mini-batches"},
	} {
		of := Config{}
		switch part := c.part.(type) {
		case int:
			of.SeqLen = part
		case syn:
			of.Synthetic = part
		case img:
			of.Images = part
		case fig:
			of.SyntheticImages = part
		case tra:
			of.Translation = part
		case mul:
			of.Multilingual = part
		}
		got, opened := of.Validate(), openers[c.source](of)
		for name, err := range map[string]error{"Validate": got, c.source: opened} {
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s of %+v: error %v, want %q in it", name, c.part, err, c.want)
			}
		}
	}
	// A source looks at no part but its own.
	bad := Config{Synthetic: syn{Vocab: -1}, Translation: tra{Shapes: -1}, Multilingual: mul{Nouns: -1},
		Images: img{Size: -1}, SyntheticImages: fig{Classes: -1}}
	for source, own := range map[string]func(*Config){
		"synthetic":   func(c *Config) { c.Synthetic = syn{} },
		"text":        func(*Config) {},
		"images":      func(c *Config) { c.Images, c.SyntheticImages = img{}, fig{} },
		"translation": func(c *Config) { c.Translation, c.Multilingual = tra{}, mul{Pairs: 10} },
		"gettext":     func(c *Config) { c.Translation = tra{} },
	} {
		c := bad
		own(&c)
		testkit.Equal(t, openers[source](c), nil, "%s", source)
	}
	// What one source accepts another does not.
	for source, of := range map[string]struct {
		c    Config
		want string
	}{
		"images":      {Config{Images: img{Size: 15}}, "synthetic-images: images of 15 pixels a side, want 16 to 1024"},
		"translation": {Config{SeqLen: 1}, "sequence length 1, want 2 to 4096 for translation"},
		"gettext":     {Config{SeqLen: 4097}, "sequence length 4097, want 2 to 4096 for translation"},
	} {
		testkit.Equal(t, fmt.Sprint(openers[source](of.c)), of.want)
	}
	all := `synthetic-translation: agglutinating SOV: all 1 training pairs are longer than 3 tokens, want a longer sequence`
	s, err := NewMultilingual(Config{SeqLen: 3, Multilingual: mul{Languages: 1, Pairs: 1}, Seed: 1})
	testkit.Equal(t, s, nil)
	testkit.Equal(t, fmt.Sprint(err), all)
}
