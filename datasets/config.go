package datasets

import (
	"cmp"
	"fmt"
)

// Config says how a source is read; each source has its own part. The zero
// value is usable. Fields with a name in a yaml tag may be in a specification,
// see package lab; the others follow there from the model.
type Config struct {
	// SeqLen is the length T of a sequence in tokens, up to 2^20. For
	// translation it is the maximum length of either side of a pair, including
	// End, 2 to 4096. Zero means 64.
	SeqLen int

	// Seed determines everything random: the order of a text, the synthetic
	// languages and their sentences.
	Seed uint64

	// Synthetic describes the synthetic language.
	Synthetic SyntheticConfig

	// Translation says how pairs of sentences are read.
	Translation TranslationConfig

	// Multilingual describes the languages of synthetic-translation.
	Multilingual MultilingualConfig

	// Images says how images are read and augmented.
	Images ImageConfig

	// SyntheticImages describes the procedural image task.
	SyntheticImages SyntheticImagesConfig
}

// SyntheticConfig describes the language of a Synthetic source.
type SyntheticConfig struct {
	// Vocab is the number of symbols, a multiple of Successors up to 65536.
	// Zero means 64.
	Vocab int `yaml:"-"`

	// Successors is the number of different symbols that may follow a given
	// one, and also the number of classes of symbols; 2 to 256. Zero means 4.
	Successors int `yaml:"-"`

	// HeldOut is the number of held-out sequences, up to 2^20. Zero means 128.
	HeldOut int `yaml:"-"`

	// MinLen makes sequences ragged: the number of targets of each is uniform
	// in [MinLen, SeqLen], and the rest is padding; 1 to SeqLen. Zero means
	// SeqLen, no padding. A ragged sequence has the same beginning as the
	// unpadded one.
	MinLen int `yaml:"min_len" want:"0.."`
}

// TranslationConfig says how pairs of sentences are read.
type TranslationConfig struct {
	// Temperature T determines how languages share an epoch: language l with
	// n_l training pairs has a share proportional to n_l^(1/T). 1 means by
	// size, infinity equal shares. Zero means 1/0.7, as in multilingual BERT,
	// which the paper follows.
	Temperature float64 `yaml:"-"`

	// Shapes is the maximum number of shapes of batches, 1 to 64. Zero means 4.
	Shapes int `yaml:"-"`

	// Window is the number of mini-batches of training whose pairs are sorted by
	// length together and then cut into these, which come in random order
	// (window-based bucketing: Kumar et al. 2019, section 3, on GNMT); up to
	// 65536. With 1 a mini-batch is drawn without regard to length. Zero means
	// that the pairs of a whole epoch are divided by shape.
	Window int `yaml:"window" want:"0.."`

	// Hosts is the number of hosts that make the mini-batches of training, up to
	// 4096, each with a part of every epoch and with windows of its own. They
	// take turns, so that all workers of a step have sentences of similar length.
	// Zero means 1; more want a Window.
	Hosts int `yaml:"hosts" want:"0.."`

	// Apart lets each of the hosts make its own part of every mini-batch, that of
	// workers of its own, instead: so parts of a mini-batch have different
	// lengths, which is there to be compared with.
	Apart bool `yaml:"apart"`

	// HeldOut is the number of held-out pairs of each language, up to 2^20; for
	// gettext the maximum number of them, of a tenth of all sentences. Zero
	// means 200.
	HeldOut int `yaml:"held_out"`

	// Vocab is the size of the vocabularies learnt from catalogs, including
	// special tokens, 6 to 65536. Zero means 16000.
	Vocab int `yaml:"-"`

	// SourceVocab is the size of the sources' vocabulary where it has another
	// size than the target's, and is not shared. Zero means Vocab.
	SourceVocab int `yaml:"-"`

	// Shared makes one vocabulary for the sources and the target.
	Shared bool `yaml:"-"`

	// Only leaves out the sentences of all languages of gettext but this one. Vocabularies, and
	// what is held out, stay as with all languages, so that losses per token can be compared. "" means all.
	Only string `yaml:"-"`

	// Noise is the probability that a token of a training target is replaced by
	// a random one, uniformly distributed; 0 to 1.
	Noise float64 `yaml:"noise"`
}

// MultilingualConfig describes the invented languages of a synthetic-translation
// source.
type MultilingualConfig struct {
	// Languages is the number of source languages, up to 8. Zero means 6.
	Languages int `yaml:"languages"`

	// Only leaves out all of these languages but one, which it counts from 1, the
	// largest. Zero means all.
	Only int `yaml:"-"`

	// Pairs is the number of training pairs of the largest language, up to 2^20;
	// the r-th largest has Pairs/r^2, rounded, at least 1. Zero means 20000.
	Pairs int `yaml:"pairs"`

	// Nouns is the number of nouns in every language, 4 to 1024. There are half
	// as many verbs and three eighths as many adjectives. Zero means 64.
	Nouns int `yaml:"nouns" want:"0.."`
}

// ImageConfig says how images are read and augmented. Only training images are
// augmented.
type ImageConfig struct {
	// Size is the height and width in pixels, 8 to 1024, for synthetic-images
	// at least 16. Images of another size are scaled, see OpenImages. Zero
	// means the size of CIFAR's or MNIST's images, 8 for synthetic-digits, and 32 for
	// other sources.
	Size int `yaml:"-"`

	// Flip mirrors an image horizontally with a probability of one half.
	Flip bool `yaml:"flip"`

	// Crop surrounds an image by that many pixels of the mean and takes a
	// random part of the original size, up to Size/2. Zero means no crop.
	Crop int `yaml:"crop" want:"0.."`

	// Cutout sets a square of that side to the mean. Its centre is uniform over
	// the image, so part of it may be outside (DeVries and Taylor, Improved
	// Regularization of Convolutional Neural Networks with Cutout, 2017); up to
	// Size. Zero means no cutout.
	Cutout int `yaml:"cutout" want:"0.."`

	// HeldOutOf is of how many images of a class OpenImages holds out one, rounded
	// up, where the folders do not say, 2 to 1000. Zero means DefaultHeldOutOf.
	HeldOutOf int `yaml:"-"`
}

// SyntheticImagesConfig describes the task of a synthetic-images source, and, without classes, of
// synthetic-digits.
type SyntheticImagesConfig struct {
	// Classes is the number of classes, each a shape with a texture, 2 to 20:
	// five shapes, with another texture for every five classes. Zero means 10.
	Classes int `yaml:"-"`

	// First is the number of the figure that is class 0; the other classes are the
	// figures that follow, of 20. Tasks of other figures are other tasks of the same
	// kind.
	First int `yaml:"first" want:"0.."`

	// Train is the number of images per epoch, up to 2^24. Zero means 10000.
	Train int `yaml:"train" want:"0.."`

	// Fresh draws new images in every epoch; otherwise every epoch has the same
	// ones.
	Fresh bool `yaml:"fresh"`

	// HeldOut is the number of held-out images, up to 2^20. Zero means 1000.
	HeldOut int `yaml:"held_out" want:"0.."`

	// Noise is the standard deviation of the noise on every value of a pixel,
	// whose range is 1. More noise makes the task harder; above 0, up to 1.
	// Zero means 0.03, which hardly affects a network.
	Noise float64 `yaml:"noise"`
}

const (
	maxSeqLen     = 1 << 20
	maxVocab      = 1 << 16
	maxSuccessors = 256
	MaxHeldOut    = 1 << 20

	maxPairLen   = 4096
	maxShapes    = 64
	MaxWindow    = 1 << 16
	MaxHosts     = 1 << 12
	MaxLanguages = 8
	MaxPairs     = 1 << 20
	minNouns     = 4
	maxNouns     = 1024

	maxHeldOutOf = 1000
	// DefaultHeldOutOf is the default of ImageConfig.HeldOutOf.
	DefaultHeldOutOf = 10
	minImage         = 8
	minFigure        = 16
	MaxImage         = 1024
	MaxTrainImages   = 1 << 24
)

// Validate reports the first field that is out of range and what it accepts.
func (c Config) Validate() error {
	return cmp.Or(c.validateSynthetic(), c.Translation.validate(), c.Multilingual.validate(),
		c.Images.validate(cmp.Or(c.Images.Size, 32)), c.SyntheticImages.validate())
}

// inRange reports a number that is not from least to most, in a message that begins with
// the format and what was given.
func inRange(format string, given, used, least, most int) error {
	if used < least || used > most {
		return fmt.Errorf(format+", want %d to %d", given, least, most)
	}
	return nil
}

// want returns an error with a message unless a condition holds.
func want(ok bool, format string, args ...any) error {
	if !ok {
		return fmt.Errorf(format, args...)
	}
	return nil
}

// validateSynthetic checks the fields that a Synthetic source uses.
func (c Config) validateSynthetic() error {
	return cmp.Or(c.validateSeqLen(), c.Synthetic.validate(c.withDefaults()))
}

// validateSeqLen checks the only field that a text uses.
func (c Config) validateSeqLen() error {
	return inRange("sequence length %d", c.SeqLen, c.withDefaults().SeqLen, 1, maxSeqLen)
}

// validateTranslation checks the fields that a source of pairs uses.
func (c Config) validateTranslation() error {
	n := c.withDefaults().SeqLen
	return cmp.Or(
		want(n >= 2 && n <= maxPairLen, "sequence length %d, want 2 to %d for translation", c.SeqLen, maxPairLen),
		c.Translation.validate(),
	)
}

func (t TranslationConfig) validate() error {
	f := Config{Translation: t}.withDefaults().Translation
	return cmp.Or(
		want(f.Temperature >= 1, "translation: temperature %v, want 1 or more", t.Temperature), // also rejects NaN
		inRange("translation: %d shapes", t.Shapes, f.Shapes, 1, maxShapes),
		inRange("translation: %d held-out pairs", t.HeldOut, f.HeldOut, 1, MaxHeldOut),
		inRange("translation: vocabulary %d", t.Vocab, f.Vocab, minBPE, maxVocab),
		inRange("translation: vocabulary %d of the sources", t.SourceVocab, f.SourceVocab, minBPE, maxVocab),
		want(f.Noise >= 0 && f.Noise <= 1, "translation: noise %v, want 0 to 1", t.Noise),
		inRange("translation: windows of %d mini-batches", t.Window, f.Window, 0, MaxWindow),
		inRange("translation: %d hosts", t.Hosts, f.Hosts, 1, MaxHosts),
		want(f.Window > 0 || f.Hosts == 1 && !f.Apart, "translation: hosts without windows, want a window of 1 or more mini-batches"),
	)
}

// validateSyntheticImages checks the fields that a source of procedural images
// uses.
func (c Config) validateSyntheticImages() error {
	size := cmp.Or(c.Images.Size, 32)
	return cmp.Or(
		c.Images.validate(size),
		inRange("synthetic-images: images of %d pixels a side", size, size, minFigure, MaxImage),
		c.SyntheticImages.validate(),
	)
}

// validate checks the fields for images of the given size, which is Size or its
// default.
func (i ImageConfig) validate(size int) error {
	out := cmp.Or(i.HeldOutOf, DefaultHeldOutOf)
	return cmp.Or(
		inRange("images: %d pixels a side", size, size, minImage, MaxImage),
		want(i.Crop >= 0 && i.Crop <= size/2, "images: crop from a margin of %d pixels, want 0 to %d, half the size", i.Crop, size/2),
		want(i.Cutout >= 0 && i.Cutout <= size, "images: cutout of %d pixels, want 0 to the size, %d", i.Cutout, size),
		want(out >= 2 && out <= maxHeldOutOf, "images: one of %d images held out, want one of 2 to %d", i.HeldOutOf, maxHeldOutOf),
	)
}

func (s SyntheticImagesConfig) validate() error {
	f := Config{SyntheticImages: s}.withDefaults().SyntheticImages
	most := maxFigures - f.Classes
	return cmp.Or(
		inRange("synthetic-images: %d classes", s.Classes, f.Classes, 2, maxFigures),
		want(f.First >= 0 && f.First <= most, "synthetic-images: %d classes from figure %d on, want 0 to %d, since there are %d figures", f.Classes, s.First, most, maxFigures),
		inRange("synthetic-images: %d training images", s.Train, f.Train, 1, MaxTrainImages),
		inRange("synthetic-images: %d held-out images", s.HeldOut, f.HeldOut, 1, MaxHeldOut),
		want(f.Noise > 0 && f.Noise <= 1, "synthetic-images: noise %v, want above 0 and up to 1", s.Noise), // also rejects NaN
	)
}

func (m MultilingualConfig) validate() error {
	f := Config{Multilingual: m}.withDefaults().Multilingual
	return cmp.Or(
		inRange("synthetic-translation: %d languages", m.Languages, f.Languages, 1, MaxLanguages),
		want(m.Only >= 0 && m.Only <= f.Languages, "synthetic-translation: language %d alone, want 1 to the %d languages", m.Only, f.Languages),
		inRange("synthetic-translation: %d pairs", m.Pairs, f.Pairs, 1, MaxPairs),
		inRange("synthetic-translation: %d nouns", m.Nouns, f.Nouns, minNouns, maxNouns),
	)
}

// validate checks the fields as they were given; full has them with defaults.
func (s SyntheticConfig) validate(full Config) error {
	f := full.Synthetic
	if err := inRange("synthetic: %d successors", s.Successors, f.Successors, 2, maxSuccessors); err != nil {
		return err
	}
	return cmp.Or(
		want(f.Vocab >= f.Successors && f.Vocab <= maxVocab && f.Vocab%f.Successors == 0,
			"synthetic: vocabulary %d, want a multiple of the %d successors up to %d", f.Vocab, f.Successors, maxVocab),
		want(full.SeqLen >= lag, "synthetic: sequence length %d, want %d or more", full.SeqLen, lag),
		inRange("synthetic: %d held-out sequences", s.HeldOut, f.HeldOut, 1, MaxHeldOut),
		want(f.MinLen >= 1 && f.MinLen <= full.SeqLen, "synthetic: shortest sequence %d, want 1 to the sequence length %d", s.MinLen, full.SeqLen),
	)
}

// withDefaults replaces zeros by the documented defaults.
func (c Config) withDefaults() Config {
	c.SeqLen = cmp.Or(c.SeqLen, 64)
	s := &c.Synthetic
	s.Vocab = cmp.Or(s.Vocab, 64)
	s.Successors = cmp.Or(s.Successors, 4)
	s.HeldOut = cmp.Or(s.HeldOut, 128)
	s.MinLen = cmp.Or(s.MinLen, c.SeqLen)
	t := &c.Translation
	t.Temperature = cmp.Or(t.Temperature, 1/0.7)
	t.Shapes = cmp.Or(t.Shapes, 4)
	t.HeldOut = cmp.Or(t.HeldOut, 200)
	t.Vocab = cmp.Or(t.Vocab, 16_000)
	t.SourceVocab = cmp.Or(t.SourceVocab, t.Vocab)
	t.Hosts = cmp.Or(t.Hosts, 1)
	m := &c.Multilingual
	m.Languages = cmp.Or(m.Languages, 6)
	m.Pairs = cmp.Or(m.Pairs, 20_000)
	m.Nouns = cmp.Or(m.Nouns, 64)
	i := &c.SyntheticImages
	i.Classes = cmp.Or(i.Classes, 10)
	i.Train = cmp.Or(i.Train, 10_000)
	i.HeldOut = cmp.Or(i.HeldOut, 1000)
	i.Noise = cmp.Or(i.Noise, 0.03)
	return c
}
