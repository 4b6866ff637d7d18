package datasets

import (
	"math"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	syn := func(s SyntheticConfig) Config { return Config{Synthetic: s} }
	for _, c := range []struct {
		c    Config
		want string // "" if valid
	}{
		{Config{}, ""},
		{Config{SeqLen: 2}, ""},
		{Config{SeqLen: 1}, "lag 2, want at most the sequence length 1"},
		{Config{SeqLen: -1}, "sequence length -1, want 1 to 1048576"},
		{Config{SeqLen: 1<<20 + 1}, "sequence length 1048577"},
		{syn(SyntheticConfig{Vocab: 256, Successors: 8, Lag: 5, Skew: 1, HeldOut: 1, MinLen: 1}), ""},
		{syn(SyntheticConfig{Vocab: 2, Successors: 2}), ""},
		{syn(SyntheticConfig{Vocab: 62}), "vocabulary 62, want a multiple of the 4 successors"},
		{syn(SyntheticConfig{Vocab: -64}), "vocabulary -64"},
		{syn(SyntheticConfig{Vocab: 1 << 17}), "up to 65536"},
		{syn(SyntheticConfig{Successors: 1}), "1 successors, want 2 to 256"},
		{syn(SyntheticConfig{Vocab: 1024, Successors: 512}), "512 successors"},
		{syn(SyntheticConfig{Lag: 1}), "lag 1, want 2 or more"},
		{syn(SyntheticConfig{Lag: 65}), "at most the sequence length 64"},
		{syn(SyntheticConfig{Skew: -1}), "skew -1, want above 0"},
		{syn(SyntheticConfig{Skew: math.NaN()}), "skew NaN"},
		{syn(SyntheticConfig{Skew: 17}), "skew 17"},
		{syn(SyntheticConfig{HeldOut: -1}), "-1 held-out sequences, want 1 to"},
		{syn(SyntheticConfig{MinLen: 65}), "shortest sequence 65, want 1 to the sequence length 64"},
		{syn(SyntheticConfig{MinLen: -1}), "shortest sequence -1"},
	} {
		err := c.c.Validate()
		_, newErr := NewSynthetic(c.c)
		if (err == nil) != (newErr == nil) {
			t.Errorf("%+v: Validate says %v, NewSynthetic %v", c.c, err, newErr)
		}
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%+v: %v", c.c, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: error %v, want %q in it", c.c, err, c.want)
		}
	}
}

// A text ignores the settings of the synthetic language.
func TestTextIgnoresSyntheticConfig(t *testing.T) {
	if _, err := NewText("text:x", make([]byte, 10), Config{SeqLen: 1, Synthetic: SyntheticConfig{Vocab: -1}}); err != nil {
		t.Error(err)
	}
}

// A source checks only its own part of a configuration.
func TestSourcesIgnoreWhatIsNotTheirs(t *testing.T) {
	bad := Config{Translation: TranslationConfig{Shapes: -1}, Multilingual: MultilingualConfig{Nouns: -1}}
	if _, err := NewSynthetic(bad); err != nil {
		t.Error(err)
	}
	if _, err := NewText("text", words(2000), bad); err != nil {
		t.Error(err)
	}
	bad = Config{Synthetic: SyntheticConfig{Lag: -1}, Multilingual: MultilingualConfig{Nouns: -1}}
	if _, err := OpenParallel(textFiles(t, "a\nb\n", "a\nb\n"), bad); err != nil {
		t.Error(err)
	}
	bad.Multilingual = MultilingualConfig{Pairs: 10}
	if _, err := NewMultilingual(bad); err != nil {
		t.Error(err)
	}
	for _, c := range []Config{bad, {Translation: TranslationConfig{Shapes: -1}}, {Multilingual: MultilingualConfig{Nouns: -1}}} {
		if c.Validate() == nil {
			t.Errorf("%+v is valid", c)
		}
	}
}
