package train

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"gpipebench/gpipe"
	"gpipebench/internal/failure"
	"gpipebench/models/transformer"
	"gpipebench/nn"
)

// Model is a network by name and scale.
type Model struct {
	Name   string `yaml:"name" json:"name" want:"model"`   // one of Models
	Layers int    `yaml:"layers" json:"layers" want:"0.."` // of transformer and gnmt: in each of encoder and decoder; of AmoebaNets: normal cells
	Dim    int    `yaml:"dim" json:"dim" want:"0.."`
	FF     int    `yaml:"ff" json:"ff" want:"0.."`
	Heads  int    `yaml:"heads" json:"heads" want:"0.."`
	Vocab  int    `yaml:"vocab" json:"vocab" want:"0.."` // of transformer: of the target
	Seq    int    `yaml:"seq" json:"seq" want:"0.."`     // tokens of an example, of either side of a pair
	Tied   Tying  `yaml:"tied" json:"tied" want:"optional"`
	// Parts divides each layer over T devices, and makes the layers that one of them has, for planning
	// and costs alone; of transformer-lm and llama.
	Parts nn.Parts `yaml:"-" json:",omitzero"`
	Fine  bool     `yaml:"fine" json:"fine"` // cut also inside of layers; of ResNets and ssd-resnet34: of blocks

	// GELU is the activation of a language model's feed-forward layers, in place of ReLU.
	GELU bool `yaml:"gelu" json:"gelu,omitempty"`

	HeadDim     int     `yaml:"head_dim" json:"head_dim,omitempty" want:"0.."`         // of transformer and llama; 0: Dim/Heads
	SourceVocab int     `yaml:"source_vocab" json:"source_vocab,omitempty" want:"0.."` // of transformer; 0: Vocab
	KVHeads     int     `yaml:"kv_heads" json:"kv_heads,omitempty" want:"0.."`         // of llama: of keys and values; 0: Heads
	RopeTheta   float64 `yaml:"rope_theta" json:"rope_theta,omitempty"`                // of llama; 0: 10,000

	// Of networks for images only.
	Filters  int     `yaml:"filters" json:"filters,omitempty" want:"0.."`   // of AmoebaNets: D
	Width    int     `yaml:"width" json:"width,omitempty" want:"0.."`       // of ResNets and ssd-resnet34: channels of the stem; 0: 64
	Image    int     `yaml:"image" json:"image,omitempty" want:"0.."`       // height and width in pixels; 0: 224, of ssd-resnet34 300
	Channels int     `yaml:"channels" json:"channels,omitempty" want:"0.."` // of the images; 0: 3
	Classes  int     `yaml:"classes" json:"classes,omitempty" want:"0.."`   // of images
	Aux      float64 `yaml:"aux" json:"aux,omitempty"`                      // weight of an AmoebaNet's auxiliary head; 0: no head
	DropPath float64 `yaml:"drop_path" json:"drop_path,omitempty"`          // rate of an AmoebaNet's last cell; 0: none
	// DropPathRise says with what that rate rises, and DropPathSteps over how many steps
	// it does: those of the training, which sets it.
	DropPathRise  Rise `yaml:"drop_path_rise" json:"drop_path_rise,omitempty" want:"optional"`
	DropPathSteps int  `yaml:"-" json:"drop_path_steps,omitempty"`
	Official      bool `yaml:"official" json:"official,omitempty"`   // amoebanetd with the official code's stem
	Delayed       bool `yaml:"delayed" json:"delayed,omitempty"`     // amoebanetd that is reduced later (the paper's first version, section 5)
	ZeroInit      bool `yaml:"zero_init" json:"zero_init,omitempty"` // ResNets and ssd-resnet34 whose blocks begin as identities
	// BNMomentum is the share that batch norm's moving averages keep at each
	// mini-batch; 0: 0.9.
	BNMomentum float64 `yaml:"bn_momentum" json:"bn_momentum,omitempty"`

	Dropout    float64 `yaml:"dropout" json:"dropout"`
	FinalNorm  bool    `yaml:"final_norm" json:"final_norm,omitempty"` // of Transformers: a layer norm before the softmax
	ScaledInit bool    `yaml:"scaled_init" json:"scaled_init"`         // of gnmt: by its width
	ClipLogits float64 `yaml:"clip_logits" json:"clip_logits"`         // 0: not
	SoftClip   bool    `yaml:"soft_clip" json:"soft_clip,omitempty"`   // of transformer: the clip is soft, see nn.SoftmaxConfig
}

// Tying says which vocabulary tables are one: none (also ""), softmax or all, as
// transformer.ParseTie reads it. A language model has only two tables, so that softmax
// and all are the same.
type Tying string

// ParseTying reads a Tying, and true and false for softmax and none.
func ParseTying(s string) (Tying, error) {
	switch s {
	case "true":
		s = transformer.TieSoftmax.String()
	case "false", "":
		s = transformer.TieNone.String()
	}
	_, err := transformer.ParseTie(s)
	return Tying(s), err
}

func (t *Tying) UnmarshalYAML(n *yaml.Node) (err error) {
	*t, err = ParseTying(n.Value)
	return err
}

// Size is one of a model's sizes.
type Size struct {
	Flag     string // the command's; "": none
	Usage    string // of the flag
	Most     int    // larger ones are refused
	Of       func(*Model) *int
	of, name string // what it counts, and its name in String; "": none
}

// Sizes are what a model's size is given by, and the most that can be trained:
// networks that are not refused are built and planned in seconds to minutes, and
// counts of them do not overflow.
var Sizes = []Size{
	{"layers", "Transformer layers, or normal cells of an AmoebaNet; transformer and gnmt have that many in the encoder and in the decoder", 10_000, func(m *Model) *int { return &m.Layers }, "layers", "layers"},
	{"dim", "width of the model", 1 << 20, func(m *Model) *int { return &m.Dim }, "dimensions", "dimension"},
	{"ff", "width inside the feed-forward layers", 1 << 22, func(m *Model) *int { return &m.FF }, "dimensions in feed-forward layers", "feed-forward"},
	{"heads", "attention heads", 1 << 20, func(m *Model) *int { return &m.Heads }, "heads", "heads"},
	{"kv-heads", "key/value heads of llama, each shared by several query heads; 0: as many as heads", 1 << 20, func(m *Model) *int { return &m.KVHeads }, "heads of keys and values", "heads of keys"},
	{"head-dim", "size of an attention head, for transformer and llama; 0: dim/heads", 1 << 20, func(m *Model) *int { return &m.HeadDim }, "dimensions of a head", ""},
	{"vocab", "vocabulary size", 1 << 24, func(m *Model) *int { return &m.Vocab }, "tokens in the vocabulary", "vocabulary"},
	{"", "", 1 << 24, func(m *Model) *int { return &m.SourceVocab }, "tokens in the source's vocabulary", ""},
	{"seq", "largest number of tokens per example", 1 << 20, func(m *Model) *int { return &m.Seq }, "tokens in an example", "sequence"},
	{"filters", "filters of an AmoebaNet's first stack of cells", 1 << 16, func(m *Model) *int { return &m.Filters }, "filters", "filters"},
	{"width", "channels of the stem, for ResNets and ssd-resnet34; 0: 64", 1 << 16, func(m *Model) *int { return &m.Width }, "channels of the stem", "width"},
	{"image", "height and width of images in pixels", 1 << 14, func(m *Model) *int { return &m.Image }, "pixels on an image's side", "images of"},
	{"", "", 1 << 10, func(m *Model) *int { return &m.Channels }, "channels of an image", ""},
	{"classes", "number of image classes", 1 << 24, func(m *Model) *int { return &m.Classes }, "classes", "classes"},
}

// maxImageLayers is the most layers of networks for images, which are cells of
// some hundred operations.
const maxImageLayers = 1500

func (m Model) checkSizes() error {
	for _, s := range Sizes {
		most := s.Most
		if s.Flag == "layers" && m.Images() {
			most = maxImageLayers
		}
		if n := *s.Of(&m); n > most {
			return failure.Usagef("%s: %d %s: want at most %d", m.Name, n, s.of, most)
		}
	}
	return nil
}

// flagNames are the flags' names for fields of the models' configurations, where they
// differ.
var flagNames = map[string]string{
	"feed-forward": "ff", "seq-len": "seq", "source-len": "seq", "target-len": "seq", "target-vocab": "vocab",
	"momentum": "bn-momentum", "aux-scale": "aux", "tie": "tied",
}

var fieldName = regexp.MustCompile(`\b(?:KV)?[A-Z][a-z]+(?:[A-Z][a-z]+)*\b`)

// inFlags returns an error of a model's configuration with flags' names for its fields.
func inFlags(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(fieldName.ReplaceAllStringFunc(err.Error(), func(field string) string {
		name := flagName(field)
		return cmp.Or(flagNames[name], name)
	}))
}

// Build returns the model's layers.
func (m Model) Build() ([]nn.Layer, error) {
	if err := m.checkSizes(); err != nil {
		return nil, err
	}
	if err := CheckModelName(m.Name); err != nil {
		return nil, failure.Usage(err)
	}
	if m.Parts.Count > 1 && !m.network().parted {
		return nil, failure.Usagef("%s in %d parts: want a network whose layers are divided, %s", m.Name, m.Parts.Count, strings.Join(namesOf(func(n network) bool { return n.parted }), " or "))
	}
	layers, err := m.network().build(m)
	return layers, failure.Usage(inFlags(err))
}

// Input returns what the model takes in mini-batches of the given size. Language
// models: token ids, and as targets the next ones; transformer: what
// datasets.Translation gives, both sides Seq long; the others: images, and as
// targets their classes.
func (m Model) Input(examples int) gpipe.Input { return m.network().kind.input(m, examples) }

// TrainedSizes are the elements of each parameter that is trained, in the layers' order.
func (m Model) TrainedSizes() (sizes []int, err error) {
	layers, err := m.Build()
	if err != nil {
		return nil, err
	}
	for _, l := range layers {
		for _, p := range l.Params() {
			if !p.Frozen {
				sizes = append(sizes, p.Shape.Elems())
			}
		}
	}
	return sizes, nil
}

// Random returns a function that makes a mini-batch for timing, which does not depend
// on its content. It is a function since large images take as long as a step.
func (m Model) Random(examples int, seed uint64) (func() (nn.Batch, error), error) {
	if examples < 1 {
		return nil, failure.Usagef("a mini-batch of %d examples: want 1 or more", examples)
	}
	return m.network().kind.random(m, examples, seed)
}

// Loss returns the model's loss.
func (m Model) Loss(smoothing float64) (nn.Loss, error) {
	if !(smoothing >= 0 && smoothing < 1) {
		return nil, failure.Usagef("label smoothing of %v: want at least 0 and less than 1", smoothing)
	}
	l := nn.CrossEntropy{Smoothing: float32(smoothing), Ranks: m.Images()}
	if of := m.network().loss; of != nil {
		return of(l), nil
	}
	if m.Aux != 0 {
		return nn.AuxiliaryLoss{CrossEntropy: l, Weight: float32(m.Aux)}, nil
	}
	return l, nil
}

// Flags are the command's flags for the network and its scale, dropout aside.
func (m Model) Flags() []string {
	flags := []string{"--model", m.Name}
	for _, s := range Sizes {
		if n := *s.Of(&m); n != 0 && s.Flag != "" {
			flags = append(flags, "--"+s.Flag, strconv.Itoa(n))
		}
	}
	if m.Tied != "" {
		flags = append(flags, "--tied="+string(m.Tied))
	}
	if m.RopeTheta != 0 {
		flags = append(flags, "--rope-theta", strconv.FormatFloat(m.RopeTheta, 'g', -1, 64))
	}
	return flags
}

// String names the network and its scale.
func (m Model) String() string {
	var scale []string
	for _, s := range Sizes {
		if n := *s.Of(&m); n != 0 && s.name != "" && slices.Contains(m.network().allFlags(), s.Flag) {
			scale = append(scale, fmt.Sprintf("%s %d", s.name, n))
		}
	}
	return m.Name + " (" + strings.Join(scale, ", ") + ")"
}
