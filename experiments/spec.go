package experiments

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
)

//go:embed *.yaml
var specFiles embed.FS

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

// head is what every spec begins with.
type head struct {
	Experiment string `yaml:"experiment"`
	Title      string `yaml:"title"`
	Source     string `yaml:"source"`  // of the paper's values
	Discard    string `yaml:"discard"` // what is not counted, fixed beforehand
	Seed       uint64 `yaml:"seed"`
}

// loadSpec reads an embedded spec.
func loadSpec(name string, into any, check func() *specProblem) (text string, err error) {
	raw, err := specFiles.ReadFile(name)
	if err != nil {
		return "", err
	}
	return string(raw), decodeSpec(name, raw, into, check)
}

// specProblem is a value that a spec's check refuses, and where it is.
type specProblem struct {
	path []string
	err  error
}

// at makes a problem of an error, if there is one.
func at(err error, path ...string) *specProblem {
	if err == nil {
		return nil
	}
	return &specProblem{path, err}
}

// decodeSpec decodes a spec strictly, runs its check, and makes every error
// start with file:line.
func decodeSpec(name string, text []byte, into any, check func() *specProblem) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		return specError(name, err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: more than one document: want one", name)
	}
	if check == nil {
		return nil
	}
	p := check()
	if p == nil {
		return nil
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return specError(name, err)
	}
	return fmt.Errorf("%s:%d: %s: %w", name, lineOf(&root, p.path), strings.Join(p.path, "."), p.err)
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// specError is the first of yaml's complaints, with its position in front.
func specError(name string, err error) error {
	text := err.Error()
	var typed *yaml.TypeError
	if errors.As(err, &typed) && len(typed.Errors) > 0 {
		text = typed.Errors[0]
	}
	text = strings.TrimPrefix(text, "yaml: ")
	line := ""
	if m := yamlLine.FindStringSubmatchIndex(text); m != nil {
		line = ":" + text[m[2]:m[3]]
		text = text[:m[0]] + text[m[1]:]
	}
	if field, _, ok := strings.Cut(text, " not found in type "); ok {
		text = "unknown " + field
	}
	return fmt.Errorf("%s%s: %s", name, line, strings.Join(strings.Fields(text), " "))
}

// lineOf finds the line of a path of keys and indices, or of as much of it as
// is there.
func lineOf(n *yaml.Node, path []string) int {
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	line := n.Line
	for _, key := range path {
		var next *yaml.Node
		switch n.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == key {
					line, next = n.Content[i].Line, n.Content[i+1]
				}
			}
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(key); err == nil && i < len(n.Content) {
				next = n.Content[i]
				line = next.Line
			}
		}
		if next == nil {
			return line
		}
		n = next
	}
	return line
}

// verbatim is a number as the paper prints it.
type verbatim struct {
	Text  string
	Value float64
}

func (v *verbatim) UnmarshalYAML(n *yaml.Node) error {
	v.Text = n.Value
	return n.Decode(&v.Value)
}

// String is the number as it is printed, "-" if there is none.
func (v *verbatim) String() string {
	if v == nil {
		return "-"
	}
	return v.Text
}

// or is the number, or another if there is none.
func (v *verbatim) or(other float64) float64 {
	if v == nil {
		return other
	}
	return v.Value
}

// span is a duration such as 90s or 3m.
type span time.Duration

func (s *span) UnmarshalYAML(n *yaml.Node) error {
	d, err := time.ParseDuration(n.Value)
	if err != nil || d <= 0 {
		return fmt.Errorf("line %d: %q is no duration: want one such as 90s or 3m", n.Line, n.Value)
	}
	*s = span(d)
	return nil
}

// setupSpec is a Setup in a spec; what is left out is the default.
type setupSpec struct {
	K           int    `yaml:"k" json:"k"` // 1
	M           int    `yaml:"m" json:"m"` // 1
	Schedule    string `yaml:"schedule" json:"schedule,omitempty"`
	Checkpoint  string `yaml:"checkpoint" json:"checkpoint,omitempty"`
	Late        bool   `yaml:"late_recompute" json:"late_recompute,omitempty"`
	Partitioner string `yaml:"partitioner" json:"partitioner,omitempty"`
	Device      string `yaml:"device" json:"device,omitempty"`
	Threads     int    `yaml:"threads" json:"threads,omitempty"`
}

// setup reads the names.
func (s setupSpec) setup() (Setup, error) {
	out := Setup{Partitions: max(s.K, 1), MicroBatches: max(s.M, 1), LateRecompute: s.Late, Threads: s.Threads}
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

// trainingSpec is a Training in a spec, without its setup.
type trainingSpec struct {
	Model     Model `yaml:"model"`
	Synthetic struct {
		Lag    int `yaml:"lag"`
		MinLen int `yaml:"min_len"`
	} `yaml:"synthetic"`
	// Images are those of networks that take images; their size and classes are
	// the model's.
	Images struct {
		Train   int     `yaml:"train"`
		Fresh   bool    `yaml:"fresh"`
		HeldOut int     `yaml:"held_out"`
		Noise   float64 `yaml:"noise"`
		Flip    bool    `yaml:"flip"`
		Crop    int     `yaml:"crop"`
		Cutout  int     `yaml:"cutout"`
	} `yaml:"images"`
	Batch          int     `yaml:"batch"`
	Steps          int     `yaml:"steps"`
	Optimizer      string  `yaml:"optimizer"`
	LR             float64 `yaml:"lr"`
	LRSchedule     string  `yaml:"lr_schedule"` // constant
	ClipNorm       float64 `yaml:"clip_norm"`
	L2             float64 `yaml:"l2"`
	LabelSmoothing float64 `yaml:"label_smoothing"`
}

func (s trainingSpec) training(data string, setup Setup, seed uint64) Training {
	t := Training{
		Model: s.Model, Data: data, Setup: setup, Batch: s.Batch, Steps: s.Steps, Seed: seed,
		Synthetic: datasets.SyntheticConfig{Lag: s.Synthetic.Lag, MinLen: s.Synthetic.MinLen},
		Images:    datasets.ImageConfig{Flip: s.Images.Flip, Crop: s.Images.Crop, Cutout: s.Images.Cutout},
		SyntheticImages: datasets.SyntheticImagesConfig{
			Train: s.Images.Train, Fresh: s.Images.Fresh, HeldOut: s.Images.HeldOut, Noise: s.Images.Noise,
		},
		Optimizer: s.Optimizer, LR: s.LR, LRSchedule: s.LRSchedule,
		ClipNorm: s.ClipNorm, L2: s.L2, LabelSmoothing: s.LabelSmoothing,
	}
	if t.LRSchedule == "" {
		t.LRSchedule = "constant"
	}
	return t
}
