package suite

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"gpipebench/datasets"
	"gpipebench/experiments/usage"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/files"
	"gpipebench/internal/yamldoc"
)

// Profiles are the sizes of every experiment: seconds, minutes, and as long as
// it takes.
var Profiles = []string{"smoke", "quick", "full"}

// CheckProfile refuses what is not among Profiles.
func CheckProfile(name string) error {
	if slices.Contains(Profiles, name) {
		return nil
	}
	return fmt.Errorf("unknown profile %q: want %s", name, strings.Join(Profiles, ", "))
}

// Head is what every spec begins with.
type Head struct {
	Experiment string `yaml:"experiment" want:"id"`
	Title      string `yaml:"title"`
	Source     string `yaml:"source"`  // of the paper's values
	Discard    string `yaml:"discard"` // what is not counted, fixed beforehand
	Seed       uint64 `yaml:"seed"`    // 0 is none: records take it so
}

// SpecFile is a spec to be used instead of one that is part of the program.
type SpecFile struct {
	Name       string // of the file
	Experiment string // that it is for
	Text       []byte
}

// SpecKind is what the file of a spec may be: ten times the longest of ours. YAML's
// decoder compares each key of a mapping with every other.
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
	id := NodeAt(root, []string{"experiment"}, true)
	if !slices.Contains(ids, id.Value) {
		return SpecFile{}, fmt.Errorf("%s:%d:%d: experiment %s: want one of %s", name, id.Line, id.Column, usage.Quoted(id.Value), strings.Join(ids, ", "))
	}
	return SpecFile{name, id.Value, text}, nil
}

// Problem is a value that a spec's check refuses, and where it is.
type Problem struct {
	Path []string
	Err  error
	at   *yaml.Node // nil: where the path leads to
}

// At makes a problem of an error, if there is one.
func At(err error, path ...string) *Problem {
	if err == nil {
		return nil
	}
	return &Problem{Path: path, Err: err}
}

// In is a problem under further keys.
func (p *Problem) In(path ...string) *Problem {
	if p != nil {
		p.Path = append(path, p.Path...)
	}
	return p
}

// error is the problem in one line, with file:line:column in front.
func (p *Problem) error(name string, root *yaml.Node) error {
	n := p.at
	if n == nil {
		n = NodeAt(root, p.Path, false)
	}
	where := ""
	if len(p.Path) > 0 {
		where = strings.Join(p.Path, ".") + ": "
	}
	// A file's fault is no misuse of the program, also where a flag's would be.
	return fmt.Errorf("%s:%d:%d: %s%v", name, n.Line, n.Column, where, p.Err)
}

// Decode decodes a spec, holds every field against what its type and tag
// allow, and runs the spec's own check. Every error starts with
// file:line:column.
func Decode(name string, text []byte, into any, check func() *Problem) error {
	root, err := yamldoc.Parse(name, text)
	if err != nil {
		return err
	}
	if root == nil {
		root = &yaml.Node{Kind: yaml.MappingNode, Line: 1, Column: 1}
	}
	if _, p := new(fieldReader).text(root, reflect.TypeOf(into), rule{}, nil); p != nil {
		return p.error(name, root)
	}
	if err := root.Decode(into); err != nil {
		return fmt.Errorf("%s:1:1: %s", name, strings.Join(strings.Fields(err.Error()), " "))
	}
	if check == nil {
		return nil
	}
	if p := check(); p != nil {
		return p.error(name, root)
	}
	return nil
}

// NodeAt finds what a path of keys and indices leads to, or as much of it as is
// there. A value under a key is found at its key, unless it is itself asked for.
func NodeAt(n *yaml.Node, path []string, value bool) *yaml.Node {
	if n == nil {
		return &yaml.Node{Line: 1, Column: 1}
	}
	at := n
	for _, key := range path {
		var next *yaml.Node
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		switch n.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == key {
					at, next = n.Content[i], n.Content[i+1]
				}
			}
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(key); err == nil && i < len(n.Content) {
				next = n.Content[i]
				at = next
			}
		}
		if next == nil {
			return at
		}
		n = next
	}
	if value {
		return n
	}
	return at
}

// Verbatim is a number as the paper prints it.
type Verbatim struct {
	Text  string
	Value float64
}

var verbatimForm = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,12})?$`)

func (v *Verbatim) UnmarshalYAML(n *yaml.Node) (err error) {
	v.Text = n.Value
	if verbatimForm.MatchString(n.Value) {
		v.Value, err = strconv.ParseFloat(n.Value, 64)
	}
	if err != nil || !(v.Value > 0) {
		return WantError("a number above 0 in digits, such as 1.13")
	}
	return nil
}

// String is the number as it is printed, "-" if there is none.
func (v *Verbatim) String() string {
	if v == nil {
		return "-"
	}
	return v.Text
}

// Span is a duration such as 90s or 3m.
type Span time.Duration

func (s *Span) UnmarshalYAML(n *yaml.Node) error {
	d, err := time.ParseDuration(n.Value)
	if err != nil || d <= 0 || d > 10_000*time.Hour {
		return WantError("a duration up to 10000h, such as 90s or 3m")
	}
	*s = Span(d)
	return nil
}

// SetupSpec is a Setup in a spec; what is left out is the default.
type SetupSpec struct {
	K           int    `yaml:"k" json:"k" want:"0..1024"`  // 1
	M           int    `yaml:"m" json:"m" want:"0..65536"` // 1
	Schedule    string `yaml:"schedule" json:"schedule,omitempty" want:"schedule,optional"`
	Checkpoint  string `yaml:"checkpoint" json:"checkpoint,omitempty" want:"checkpoint,optional"`
	Late        bool   `yaml:"late_recompute" json:"late_recompute,omitempty"`
	Partitioner string `yaml:"partitioner" json:"partitioner,omitempty" want:"partitioner,optional"`
	Device      string `yaml:"device" json:"device,omitempty" want:"device,optional"`
	Threads     int    `yaml:"threads" json:"threads,omitempty" want:"0..1024"`
}

// Setup reads the names.
func (s SetupSpec) Setup() (workload.Setup, error) {
	out := workload.Setup{Partitions: max(s.K, 1), MicroBatches: max(s.M, 1), LateRecompute: s.Late, Threads: s.Threads}
	var err error
	read := func(name string, parse func() error) {
		if name != "" && err == nil {
			err = parse()
		}
	}
	read(s.Schedule, func() (e error) { out.Schedule, e = schedule.Parse(s.Schedule); return })
	read(s.Checkpoint, func() (e error) { out.Checkpoint, e = schedule.ParseCheckpoint(s.Checkpoint); return })
	read(s.Partitioner, func() (e error) { out.Partitioner, e = partition.Parse(s.Partitioner); return })
	read(s.Device, func() (e error) { out.Device, e = gpipe.ParseKind(s.Device); return })
	return out, err
}

// TrainingSpec is a Training in a spec, without its setup.
type TrainingSpec struct {
	Model     workload.Model           `yaml:"model"`
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

func (s TrainingSpec) Training(data string, setup workload.Setup, seed uint64) workload.Training {
	t := workload.Training{
		Model: s.Model, Data: data, Setup: setup, Batch: s.Batch, Steps: s.Steps, Seed: seed,
		Config:    datasets.Config{Synthetic: s.Synthetic, Images: s.Images.ImageConfig, SyntheticImages: s.Images.SyntheticImagesConfig},
		Optimizer: s.Optimizer, LR: s.LR, LRSchedule: s.LRSchedule,
		ClipNorm: s.ClipNorm, L2: s.L2, LabelSmoothing: s.LabelSmoothing,
	}
	if t.LRSchedule == "" {
		t.LRSchedule = "constant"
	}
	return t
}
