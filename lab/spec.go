package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/cluster"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/failure"
	"gpipebench/internal/files"
	"gpipebench/internal/printable"
	"gpipebench/internal/yamldoc"
	"gpipebench/lab/verdict"
	"gpipebench/train"
)

// Profiles are the sizes of every experiment: seconds, minutes, and as long as
// it takes.
var Profiles = []string{"smoke", "quick", "full"}

// CheckProfile returns an error unless the name is one of Profiles.
func CheckProfile(name string) error {
	if slices.Contains(Profiles, name) {
		return nil
	}
	return fmt.Errorf("unknown profile %q: want %s", name, strings.Join(Profiles, ", "))
}

// Head is what every spec begins with.
type Head struct {
	Experiment string `yaml:"experiment" want:"id"`
	Kind       string `yaml:"kind" want:"optional,shown"` // none: its own code makes it
	Title      string `yaml:"title" want:"shown"`
	// Finding is what the figure shows, with expressions over the tables in braces; see Filled.
	Finding string `yaml:"finding" want:"shown,optional"`
	Source  string `yaml:"source" want:"shown"`  // of the paper's values
	Discard string `yaml:"discard" want:"shown"` // what is not counted, fixed beforehand
	Seed    uint64 `yaml:"seed"`                 // 0 is none: records take it so
	// Design is how trainings are compared; nil: the experiment has none that claims name.
	Design *Design `yaml:"design" want:"shown"`
}

// SpecFile is a spec to be used instead of one that is part of the program.
type SpecFile struct {
	Name       string // of the file
	Experiment string // that it is for
	Text       []byte
}

// SpecKind bounds a spec's file to ten times the longest of ours: YAML's decoder
// compares each key of a mapping with every other.
var SpecKind = files.Kind{What: "a spec", Bytes: 64 << 10}

// ReadSpec reads a spec's file, and which of the experiments it is for.
func ReadSpec(name string, ids []string) (SpecFile, error) {
	text, err := files.Read(name, SpecKind)
	if err != nil {
		return SpecFile{}, err
	}
	root, err := yamldoc.Parse(name, text)
	if err != nil {
		return SpecFile{}, err
	}
	id := yamldoc.NodeAt(root, []string{"experiment"}, true)
	if !slices.Contains(ids, id.Value) {
		return SpecFile{}, fmt.Errorf("%s:%d:%d: experiment %s: want one of %s", name, id.Line, id.Column, printable.Quoted(id.Value), strings.Join(ids, ", "))
	}
	return SpecFile{name, id.Value, text}, nil
}

// With is the spec with other numbers in a field at its top: the cells of a table along one axis, or its one
// number. Nothing else changes, comments included, but for the layout.
func (s SpecFile) With(axis string, numbers []int) (SpecFile, error) {
	var root yaml.Node
	if _, err := yamldoc.Parse(s.Name, s.Text); err != nil {
		return s, err
	}
	if err := yaml.Unmarshal(s.Text, &root); err != nil {
		return s, err
	}
	refused := func(want string) (SpecFile, error) {
		return s, failure.Usagef("%s in the spec of %s: want %s", axis, s.Experiment, want)
	}
	at := yamldoc.NodeAt(root.Content[0], []string{axis}, true)
	switch {
	case at.Kind == yaml.MappingNode:
		return refused("an experiment whose spec has such a field")
	case at.Kind == yaml.ScalarNode && len(numbers) != 1:
		return refused("one number")
	case at.Kind == yaml.ScalarNode:
		at.Value = strconv.Itoa(numbers[0])
	default:
		at.Content = nil
		for _, n := range numbers {
			at.Content = append(at.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.Itoa(n)})
		}
	}
	var text bytes.Buffer
	e := yaml.NewEncoder(&text)
	e.SetIndent(2)
	err := errors.Join(e.Encode(&root), e.Close())
	s.Text = text.Bytes()
	return s, err
}

// Problem is a value that a spec's check refuses, and where it is.
type Problem = yamldoc.Problem

// At makes a problem of an error, if there is one.
func At(err error, path ...string) *Problem { return yamldoc.At(err, path...) }

// DocumentationSource is data that learning makes: the Go distribution's documentation.
const DocumentationSource = "go-documentation"

// vocabularies are the vocabularies of specs, by the words of their tags.
var vocabularies = yamldoc.Vocabularies{
	"schedule":    parsed(schedule.Parse),
	"checkpoint":  parsed(schedule.ParseCheckpoint),
	"partitioner": parsed(partition.Parse),
	"cost":        parsed(train.ParseCost),
	"device":      parsed(gpipe.ParseKind),
	"dtype":       parsed(train.ParseDType),
	"accounting":  parsed(gpipe.ParseAccounting),
	"optimizer":   parsed(train.ParseOptimizer),
	"accelerator": parsed(accelerator.Named),
	"all-reduce":  parsed(reduction.ParseKind),
	"model":       train.CheckModelName,
	"data":        yamldoc.OneOf("synthetic", DocumentationSource),
	"images":      checkImages,
	"scope":       parsed(gpipe.ParseScope),
	"split":       yamldoc.OneOf("coarse", "fine"),
	"recompute":   yamldoc.OneOf("early", "late"),
	"network":     yamldoc.OneOf(cluster.Networks...),
	"batches":     yamldoc.OneOf("filled", "shrunk", "fixed"),
	"switch":      yamldoc.OneOf("on", "off", "file"),
	"claimed":     yamldoc.OneOf(string(verdict.Same), string(verdict.NotLess)),
	"test":        yamldoc.OneOf(string(verdict.SignFlip), string(verdict.Sign)),
	"bars":        yamldoc.OneOf("mark", "across"),
}

// checkImages refuses what is not data of images.
func checkImages(s string) error {
	kind, dir, _ := strings.Cut(s, ":")
	if s == "synthetic" || dir != "" && slices.Contains([]string{"images", "cifar10", "cifar100", "mnist"}, kind) {
		return nil
	}
	return fmt.Errorf("unknown %s: want synthetic, images:DIR, cifar10:DIR, cifar100:DIR or mnist:DIR", printable.Quoted(s))
}

// parsed is the vocabulary of what parse takes.
func parsed[T any](parse func(string) (T, error)) func(string) error {
	return func(s string) error {
		_, err := parse(s)
		return err
	}
}

// Decode decodes a spec and runs its own check: see yamldoc.Decode.
func Decode(name string, text []byte, into any, check func() *Problem) error {
	return yamldoc.Decode(name, text, into, vocabularies, check)
}

// Span is a duration such as 90s or 3m.
type Span time.Duration

func (s *Span) UnmarshalYAML(n *yaml.Node) error {
	d, err := time.ParseDuration(n.Value)
	if err != nil || d <= 0 || d > 10_000*time.Hour {
		return yamldoc.WantError("a duration up to 10000h, such as 90s or 3m")
	}
	*s = Span(d)
	return nil
}

// SetupSpec is a Setup in a spec; what is left out is the default.
type SetupSpec struct {
	K           int    `yaml:"k" json:"k" want:"0..1024"`  // 1
	M           int    `yaml:"m" json:"m" want:"0..65536"` // 1
	Schedule    string `yaml:"schedule" json:"schedule,omitempty" want:"schedule,optional"`
	Window      int    `yaml:"window" json:"window,omitempty" want:"0..1048576"` // of an asynchronous schedule
	Checkpoint  string `yaml:"checkpoint" json:"checkpoint,omitempty" want:"checkpoint,optional"`
	Late        bool   `yaml:"late_recompute" json:"late_recompute,omitempty"`
	Partitioner string `yaml:"partitioner" json:"partitioner,omitempty" want:"partitioner,optional"`
	Device      string `yaml:"device" json:"device,omitempty" want:"device,optional"`
	Threads     int    `yaml:"threads" json:"threads,omitempty" want:"0..1024"`
	R           int    `yaml:"r" json:"r,omitempty" want:"0..65536"` // 1
	G           int    `yaml:"g" json:"g,omitempty" want:"0..65536"` // one for each replica
	Shard       bool   `yaml:"shard_update" json:"shard_update,omitempty"`
	Spatial     int    `yaml:"spatial" json:"spatial,omitempty" want:"0..64"`            // 1
	Tensor      int    `yaml:"tensor" json:"tensor,omitempty" want:"0..64"`              // 1
	Blocks      int    `yaml:"blocks" json:"blocks,omitempty" want:"0..4096"`            // 1
	Scope       string `yaml:"bn_scope" json:"bn_scope,omitempty" want:"scope,optional"` // of batch norm
	DType       string `yaml:"dtype" json:"dtype,omitempty" want:"dtype,optional"`       // of activations; f32
}

// Setup returns the setup of a spec that Decode has accepted.
func (s SetupSpec) Setup() train.Setup {
	return train.Setup{
		Partitions: max(s.K, 1), MicroBatches: max(s.M, 1), LateRecompute: s.Late, Threads: s.Threads,
		Replicas: s.R, Groups: s.G, Spatial: s.Spatial, Tensor: s.Tensor, Blocks: s.Blocks, ShardUpdate: s.Shard, BNScope: Named(gpipe.ParseScope, s.Scope), DType: Named(train.ParseDType, s.DType),
		Schedule: Named(schedule.Parse, s.Schedule), Window: s.Window, Checkpoint: Named(schedule.ParseCheckpoint, s.Checkpoint),
		Partitioner: Named(partition.Parse, s.Partitioner), Device: Named(gpipe.ParseKind, s.Device),
	}
}

// Named parses a name that Decode has checked against its vocabulary; "" is the zero
// value.
func Named[T any](parse func(string) (T, error), name string) (v T) {
	if name == "" {
		return v
	}
	v, err := parse(name)
	if err != nil {
		panic(fmt.Sprintf("lab: %v", err))
	}
	return v
}

// TrainingSpec is a Training in a spec, without its setup.
type TrainingSpec struct {
	Model     train.Model              `yaml:"model"`
	Synthetic datasets.SyntheticConfig `yaml:"synthetic"`
	Images    struct {
		datasets.SyntheticImagesConfig `yaml:",inline"`
		datasets.ImageConfig           `yaml:",inline"`
	} `yaml:"images"`
	Batch          int     `yaml:"batch"`
	Steps          int     `yaml:"steps" want:"0.."`
	Optimizer      string  `yaml:"optimizer" want:"optimizer"`
	LR             float64 `yaml:"lr" want:">0.."`
	LRSchedule     string  `yaml:"lr_schedule" want:"optional"` // constant
	ClipNorm       float64 `yaml:"clip_norm"`
	L2             float64 `yaml:"l2"`
	LabelSmoothing float64 `yaml:"label_smoothing"`
	// RecomputeStatistics is train.Training's: how many training examples batch norm's statistics are
	// of in evaluations.
	RecomputeStatistics int        `yaml:"recompute_statistics" want:"0.."`
	Keep                train.Keep `yaml:"keep" want:"optional"` // last; best wants eval_every
	EvalEvery           int        `yaml:"eval_every" want:"0.."`
}

// PairsSpec is the data of trainings on synthetic-translation in a spec.
type PairsSpec struct {
	datasets.MultilingualConfig `yaml:",inline"`
	datasets.TranslationConfig  `yaml:",inline"`
}

// Config says how the pairs are read.
func (p PairsSpec) Config() datasets.Config {
	return datasets.Config{Multilingual: p.MultilingualConfig, Translation: p.TranslationConfig}
}

// SentencesSpec is the data of translators in a spec: languages of programs' catalogs, or
// invented ones.
type SentencesSpec struct {
	Catalogs  string                       `yaml:"catalogs" want:"optional,shown"` // a directory, as make corpus makes it
	Languages []string                     `yaml:"languages" want:"optional"`      // of the catalogs
	Invented  *datasets.MultilingualConfig `yaml:"invented"`
	HeldOut   int                          `yaml:"held_out"` // pairs of each language, at most

	// As datasets.TranslationConfig has them; 0: its defaults.
	Temperature float64 `yaml:"temperature" want:"0..1000"`
	Shapes      int     `yaml:"shapes" want:"0..64"`
	Noise       float64 `yaml:"noise" want:"0..1"`
}

// Check refuses languages that cannot be, for sequences of a length in tokens.
func (s SentencesSpec) Check(seq int) *Problem {
	switch {
	case (s.Invented != nil) == (len(s.Languages) > 0):
		return At(errors.New("want either invented languages or those of catalogs"))
	case (s.Catalogs != "") != (len(s.Languages) > 0):
		return At(errors.New("want a directory, and languages of it"), "catalogs")
	case s.Invented != nil:
		c := s.Config(0)
		c.SeqLen = seq
		return At(c.Validate())
	}
	_, _, err := datasets.CatalogsOf(s.Source())
	return At(err, "languages")
}

// Names are the languages' names, in the order in which a training has them.
func (s SentencesSpec) Names() []string {
	if s.Invented == nil {
		return s.Languages
	}
	var names []string
	for i := range s.Invented.Languages {
		names = append(names, fmt.Sprintf("invented %d", i+1))
	}
	return names
}

// Source is what a training reads.
func (s SentencesSpec) Source() string {
	if s.Invented != nil {
		return "synthetic-translation"
	}
	return "gettext:" + strings.Join(append([]string{s.Catalogs}, s.Languages...), ",")
}

// Config says how the sentences are read: of all languages (0), or of one alone, which it counts from 1.
func (s SentencesSpec) Config(only int) (c datasets.Config) {
	c.Translation.HeldOut, c.Translation.Temperature = s.HeldOut, s.Temperature
	c.Translation.Shapes, c.Translation.Noise = s.Shapes, s.Noise
	if s.Invented != nil {
		c.Multilingual = *s.Invented
		c.Multilingual.Only = only
	} else if only > 0 {
		c.Translation.Only = s.Languages[only-1]
	}
	return c
}

// Present reports catalogs that a training would read and that are not here, by its source.
func Present(source string) error {
	dir, _, err := datasets.CatalogsOf(source)
	if err != nil {
		return nil // of another kind
	}
	if _, err = os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no catalogs in %s: want those that make corpus fetches, in the directory from which this is run, or another directory as catalogs of a spec", files.Printable(dir))
	}
	return err
}

func (s TrainingSpec) Training(data string, setup train.Setup, seed uint64) train.Training {
	t := train.Training{
		Model: s.Model, Data: data, Setup: setup, Batch: s.Batch, Steps: s.Steps, Seed: seed,
		Config:    datasets.Config{Synthetic: s.Synthetic, Images: s.Images.ImageConfig, SyntheticImages: s.Images.SyntheticImagesConfig},
		Optimizer: s.Optimizer, LR: s.LR, LRSchedule: s.LRSchedule,
		ClipNorm: s.ClipNorm, L2: s.L2, LabelSmoothing: s.LabelSmoothing,
		RecomputeStatistics: s.RecomputeStatistics, Keep: s.Keep, EvalEvery: s.EvalEvery,
	}
	if t.LRSchedule == "" {
		t.LRSchedule = "constant"
	}
	return t
}
