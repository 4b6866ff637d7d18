package train

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/internal/printable"
	"gpipebench/models/amoebanet"
	"gpipebench/models/convnet"
	"gpipebench/models/gnmt"
	"gpipebench/models/llama"
	"gpipebench/models/resnet"
	"gpipebench/models/ssd"
	"gpipebench/models/transformer"
	"gpipebench/nn"
)

// Names that code asks for; the others stand in the table alone.
const (
	LanguageModel = "transformer-lm"
	Translator    = "transformer" // encoder and decoder
	GNMT          = "gnmt"        // encoder and decoder, recurrent
	Llama         = "llama"       // a language model, too
	AmoebaNet     = "amoebanetd"
	AmoebaNetB    = "amoebanetb"
	Detector      = "ssd-resnet34"
	ConvNet       = "convnet" // no example sees another; not among Models
)

// network is a row of the table of networks.
type network struct {
	name   string
	kind   kind // what it takes and learns from
	build  func(Model) ([]nn.Layer, error)
	flags  string  // the command's that not all networks have, besides its kind's
	preset *Preset // nil: none
	hidden bool    // not listed among the names
	parted bool    // T devices may divide each of its layers (Model.Parts)
	image  int     // height and width in pixels if none are given, of networks for images; 0: 224
	// loss makes the network's loss of the one that all networks for images have; nil: that one.
	loss func(nn.CrossEntropy) nn.Loss
}

// networks is the table. A network is a folder under models/ and a row here.
var networks = []network{
	{name: LanguageModel, kind: tokens{}, parted: true, build: languageModel, flags: "layers dim ff heads tied final-norm clip-logits scaled-init"},
	{name: Translator, kind: pairs{}, build: translator, flags: "layers dim ff heads head-dim tied final-norm clip-logits scaled-init", preset: translatorPreset},
	{name: GNMT, kind: pairs{}, build: recurrentTranslator, flags: "layers dim tied scaled-init", preset: gnmtPreset},
	{name: AmoebaNet, kind: images{}, build: amoebaNet, flags: "layers filters aux official delayed drop-path drop-path-rise bn-momentum recompute-statistics recipe", preset: amoebaPreset},
	{name: AmoebaNetB, kind: images{}, build: amoebaNet, flags: "layers filters aux drop-path drop-path-rise bn-momentum recompute-statistics recipe", preset: amoebaPreset},
	{name: "resnet20", kind: images{}, build: resNet(20), flags: "width zero-init bn-momentum recompute-statistics", preset: smallResNetPreset, image: 32},
	{name: "resnet50", kind: images{}, build: resNet(50), flags: "width zero-init bn-momentum recompute-statistics", preset: resNetPreset},
	{name: "resnet101", kind: images{}, build: resNet(101), flags: "width zero-init bn-momentum recompute-statistics", preset: resNetPreset},
	{name: "resnet152", kind: images{}, build: resNet(152), flags: "width zero-init bn-momentum recompute-statistics", preset: resNetPreset},
	{name: Detector, kind: images{}, build: detector, flags: "width zero-init bn-momentum recompute-statistics", preset: detectorPreset, image: ssd.DefaultImage, loss: detectorLoss},
	{name: Llama, kind: tokens{}, parted: true, build: llamaModel, flags: "layers dim ff heads kv-heads head-dim rope-theta tied", preset: llamaPreset},
	{name: ConvNet, kind: images{}, build: convNet, flags: "layers filters", hidden: true},
}

// network returns the model's row. An unknown one, which Build refuses, takes tokens.
func (m Model) network() network {
	for _, n := range networks {
		if n.name == m.Name {
			return n
		}
	}
	return network{kind: tokens{}}
}

func (n network) allFlags() []string { return strings.Fields(n.flags + " " + n.kind.flags()) }

// namesOf returns the names of the networks that are not hidden and that has accepts.
func namesOf(has func(network) bool) (names []string) {
	for _, n := range networks {
		if !n.hidden && has(n) {
			names = append(names, n.name)
		}
	}
	return names
}

// Models lists the names that Model.Name may have.
func Models() []string { return namesOf(func(network) bool { return true }) }

// ModelsWith lists the networks that a flag of the command is for; none if it is for
// all.
func ModelsWith(flag string) []string {
	return namesOf(func(n network) bool { return slices.Contains(n.allFlags(), flag) })
}

// imageModels lists the networks that take images.
func imageModels() []string { return namesOf(func(n network) bool { return n.kind == images{} }) }

// CheckModelName refuses what is no name of a network.
func CheckModelName(name string) error {
	if slices.ContainsFunc(networks, func(n network) bool { return n.name == name }) {
		return nil
	}
	return fmt.Errorf("unknown model %s: want %s", printable.Quoted(name), strings.Join(Models(), ", "))
}

// Images reports whether the network takes images.
func (m Model) Images() bool { return m.network().kind == images{} }

// tie returns Tied as a transformer.Tie.
func (m Model) tie() (transformer.Tie, error) {
	tied, err := ParseTying(string(m.Tied))
	if err != nil {
		return 0, err
	}
	return transformer.ParseTie(string(tied))
}

func languageModel(m Model) ([]nn.Layer, error) {
	tie, err := m.tie()
	switch {
	case err != nil:
		return nil, err
	case m.SoftClip:
		return nil, fmt.Errorf("%s clips logits: want a soft clip only of %s", m.Name, Translator)
	case m.HeadDim != 0 && m.HeadDim*m.Heads != m.Dim:
		return nil, fmt.Errorf("%d heads of %d at width %d: want a head size of width/heads, or %s, which takes others", m.Heads, m.HeadDim, m.Dim, Translator)
	}
	return transformer.LM(transformer.Config{
		Layers: m.Layers, Dim: m.Dim, FeedForward: m.FF, Heads: m.Heads, Vocab: m.Vocab, SeqLen: m.Seq,
		Dropout: float32(m.Dropout), Tied: tie != transformer.TieNone, FinalNorm: m.FinalNorm, ScaledInit: m.ScaledInit, ClipLogits: float32(m.ClipLogits), Fine: m.Fine, Parts: m.Parts,
		Activation: m.activation(),
	})
}

func llamaModel(m Model) ([]nn.Layer, error) {
	tie, err := m.tie()
	switch {
	case err != nil:
		return nil, err
	case m.Dropout != 0:
		return nil, fmt.Errorf("%s has no dropout: want a rate of 0", m.Name)
	case m.ClipLogits != 0 || m.SoftClip || m.ScaledInit || m.FinalNorm:
		return nil, fmt.Errorf("%s neither clips logits nor scales initial weights, and always has a final norm: "+
			"want none of these, or %s", m.Name, LanguageModel)
	}
	return llama.New(llama.Config{
		Layers: m.Layers, Dim: m.Dim, FeedForward: m.FF, Heads: m.Heads, KVHeads: m.KVHeads, HeadDim: m.HeadDim,
		Vocab: m.Vocab, SeqLen: m.Seq, RopeTheta: m.RopeTheta, Tied: tie != transformer.TieNone, Fine: m.Fine, Parts: m.Parts,
	})
}

// PublishedModels lists the names of networks whose weights have been published.
func PublishedModels() (names []string) {
	for _, n := range llama.Published {
		names = append(names, n.Name)
	}
	return names
}

// PublishedModel is a published network by its name, as a model of a name in Models with its sizes.
func PublishedModel(name string) (m Model, ok bool) {
	n, ok := llama.Named(name)
	if !ok {
		return m, false
	}
	c := n.Config
	m = Model{
		Name: Llama, Layers: c.Layers, Dim: c.Dim, FF: c.FeedForward, Heads: c.Heads, KVHeads: c.KVHeads,
		Vocab: c.Vocab, Seq: c.SeqLen, RopeTheta: c.RopeTheta, Tied: Tying(transformer.TieNone.String()),
	}
	if c.Tied {
		m.Tied = Tying(transformer.TieSoftmax.String())
	}
	return m, true
}

// activation returns what feed-forward layers apply.
func (m Model) activation() nn.Activation {
	if m.GELU {
		return nn.GELU
	}
	return nn.ReLU
}

func translator(m Model) ([]nn.Layer, error) {
	tie, err := m.tie()
	if err != nil {
		return nil, err
	}
	return transformer.Translation(transformer.TranslationConfig{
		Layers: m.Layers, Dim: m.Dim, FeedForward: m.FF, Heads: m.Heads, HeadDim: m.HeadDim,
		SourceVocab: cmp.Or(m.SourceVocab, m.Vocab), TargetVocab: m.Vocab, SourceLen: m.Seq, TargetLen: m.Seq,
		Dropout: float32(m.Dropout), Tie: tie, FinalNorm: m.FinalNorm, ScaledInit: m.ScaledInit, ClipLogits: float32(m.ClipLogits), SoftClip: m.SoftClip, Fine: m.Fine,
	})
}

// recurrentTranslator builds a GNMT. Its embeddings may be one table, of one vocabulary; the
// softmax has its own.
func recurrentTranslator(m Model) ([]nn.Layer, error) {
	tie, err := m.tie()
	switch {
	case err != nil:
		return nil, err
	case tie == transformer.TieSoftmax:
		return nil, fmt.Errorf("%s has a softmax of its own: want --tied none, or all for one table of both embeddings", m.Name)
	case m.plainSoftmax() != nil:
		return nil, m.plainSoftmax()
	case m.Fine:
		return nil, fmt.Errorf("%s is cut at its recurrent layers: want a coarse split", m.Name)
	}
	return gnmt.New(gnmt.Config{
		Layers: m.Layers, Dim: m.Dim, SourceVocab: cmp.Or(m.SourceVocab, m.Vocab), TargetVocab: m.Vocab, SourceLen: m.Seq, TargetLen: m.Seq,
		Shared: tie == transformer.TieAll, Dropout: float32(m.Dropout), ScaledInit: m.ScaledInit,
	})
}

// plainSoftmax refuses what only the softmax of a Transformer has.
func (m Model) plainSoftmax() error {
	switch {
	case m.ClipLogits != 0 || m.SoftClip:
		return fmt.Errorf("%s does not clip logits: want no limit", m.Name)
	case m.FinalNorm:
		return fmt.Errorf("%s has no final norm before its softmax: want none, or %s or %s", m.Name, LanguageModel, Translator)
	}
	return nil
}

func amoebaNet(m Model) ([]nn.Layer, error) {
	switch {
	case !(m.Aux >= 0 && m.Aux <= 1e6):
		return nil, fmt.Errorf("an auxiliary head's weight of %v: want a positive number, or 0 for no head", m.Aux)
	case m.Fine:
		return nil, fmt.Errorf("%s is cut at its cells: want a coarse split", m.Name)
	case m.plainSoftmax() != nil:
		return nil, m.plainSoftmax()
	case m.Name == AmoebaNetB && (m.Official || m.Delayed):
		return nil, fmt.Errorf("%s always has the official stem, and no delayed reductions: want neither, or %s", m.Name, AmoebaNet)
	}
	rise, err := ParseRise(string(m.DropPathRise))
	if err != nil {
		return nil, err
	}
	c := amoebanet.Config{
		Layers: m.Layers, Filters: m.Filters, Classes: m.Classes, Image: m.Image, Channels: m.Channels,
		DropPath: float32(m.DropPath), DropPathEven: rise == RiseSteps, Dropout: float32(m.Dropout), Aux: m.Aux != 0,
		Official: m.Official, Delayed: m.Delayed, Momentum: m.BNMomentum,
	}
	if m.Name == AmoebaNetB {
		c.Cells = amoebanet.B
	}
	if rise != RiseDepth {
		c.DropPathSteps = m.DropPathSteps
	}
	return amoebanet.New(c)
}

// residual refuses what a residual network does not have.
func (m Model) residual() error {
	switch {
	case m.Aux != 0 || m.DropPath != 0 || m.Official || m.Delayed:
		return fmt.Errorf("%s has no auxiliary head, no drop-path and no variants: want %s or %s", m.Name, AmoebaNet, AmoebaNetB)
	case m.Dropout != 0:
		return fmt.Errorf("%s has no dropout: want a rate of 0", m.Name)
	}
	return m.plainSoftmax()
}

// resNet returns the builder of ResNets of a depth.
func resNet(depth int) func(Model) ([]nn.Layer, error) {
	return func(m Model) ([]nn.Layer, error) {
		if err := m.residual(); err != nil {
			return nil, err
		}
		return resnet.New(resnet.Config{
			Depth: depth, Width: m.Width, Classes: m.Classes, Image: m.Image, Channels: m.Channels,
			ZeroInit: m.ZeroInit, Momentum: m.BNMomentum, Fine: m.Fine,
		})
	}
}

// detector builds an SSD. The loss is for data with a label for each image: see ssd.Loss.
func detector(m Model) ([]nn.Layer, error) {
	if err := m.residual(); err != nil {
		return nil, err
	}
	return ssd.New(ssd.Config{
		Width: m.Width, Classes: m.Classes, Image: m.Image, Channels: m.Channels, ZeroInit: m.ZeroInit, Momentum: m.BNMomentum, Fine: m.Fine,
	})
}

func detectorLoss(c nn.CrossEntropy) nn.Loss { return ssd.Loss{CrossEntropy: c} }

func convNet(m Model) ([]nn.Layer, error) {
	return convnet.New(convnet.Config{
		Layers: m.Layers, Filters: m.Filters, Channels: cmp.Or(m.Channels, 3), Classes: m.Classes,
		DropPath: float32(m.DropPath), Dropout: float32(m.Dropout),
	})
}

// FlopsOf is what the layers of a model cost, from their shapes.
func FlopsOf(m Model) ([]float64, error) {
	d, err := Described(m)
	if err != nil {
		return nil, err
	}
	return d.FLOPs(), nil
}

// Described is a model's network for one example, from its shapes.
func Described(m Model) (*gpipe.Description, error) {
	layers, err := m.Build()
	if err != nil {
		return nil, err
	}
	loss := nn.Loss(nn.CrossEntropy{})
	if of := m.network().loss; of != nil {
		loss = of(nn.CrossEntropy{})
	}
	return gpipe.Pipeline{Layers: layers, Loss: loss}.Counted(m.Input(1))
}
