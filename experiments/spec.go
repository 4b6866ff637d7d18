package experiments

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
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

// checkSeed refuses a seed of 0, which records take for none.
func (h *head) checkSeed() *specProblem {
	if h.Seed == 0 {
		return at(errors.New("want 1 or more"), "seed")
	}
	return nil
}

// SpecFile is a spec to be used instead of one that is part of the program.
type SpecFile struct {
	Name       string // of the file
	Experiment string // that it is for
	text       []byte
}

// ReadSpec reads a spec's file, and which of the experiments it is for.
func ReadSpec(name string, ids []string) (SpecFile, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return SpecFile{}, err
	}
	var head struct {
		Experiment yaml.Node `yaml:"experiment"`
	}
	if err := yaml.Unmarshal(text, &head); err != nil {
		return SpecFile{}, specError(name, text, nil, err)
	}
	id := head.Experiment
	if !slices.Contains(ids, id.Value) {
		position := fmt.Sprintf("%s:%d:%d", name, max(id.Line, 1), max(id.Column, 1))
		return SpecFile{}, fmt.Errorf("%s: experiment %q: want one of %s", position, id.Value, strings.Join(ids, ", "))
	}
	return SpecFile{name, id.Value, text}, nil
}

// loadSpec reads an embedded spec, or the file that is given instead.
func loadSpec(name string, from []SpecFile, into any, check func() *specProblem) (text string, err error) {
	raw, err := specFiles.ReadFile(name)
	if err != nil {
		return "", err
	}
	if len(from) > 0 {
		name, raw = from[0].Name, from[0].text
	}
	return string(raw), usage(decodeSpec(name, raw, into, func() *specProblem {
		if s, ok := into.(interface{ checkSeed() *specProblem }); ok {
			if p := s.checkSeed(); p != nil {
				return p
			}
		}
		return check()
	}))
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
// start with file:line:column, as far as they are known.
func decodeSpec(name string, text []byte, into any, check func() *specProblem) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		return specError(name, text, into, err)
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
		return specError(name, text, into, err)
	}
	at := nodeAt(&root, p.path)
	return fmt.Errorf("%s:%d:%d: %s: %w", name, at.Line, at.Column, strings.Join(p.path, "."), p.err)
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

var (
	unknownField = regexp.MustCompile(`^field (\S+) (?:not found|already set) in type `)
	quotedValue  = regexp.MustCompile(`"([^"]+)"`)
	illTyped     = regexp.MustCompile("^cannot unmarshal !!(\\w+) (?:`(.*)` )?into (\\S+)$")
)

// specError is the first of yaml's complaints, with its position in front and
// with what is allowed.
func specError(name string, text []byte, into any, err error) error {
	said := err.Error()
	var typed *yaml.TypeError
	if errors.As(err, &typed) && len(typed.Errors) > 0 {
		said = typed.Errors[0]
	}
	said = strings.Join(strings.Fields(strings.TrimPrefix(said, "yaml: ")), " ")
	m := yamlLine.FindStringSubmatchIndex(said)
	if m == nil {
		return fmt.Errorf("%s: %s", name, said)
	}
	line, _ := strconv.Atoi(said[m[2]:m[3]])
	said = said[:m[0]] + said[m[1]:]
	var root yaml.Node
	readable := yaml.Unmarshal(text, &root) == nil
	position := fmt.Sprintf("%s:%d", name, line)
	place := func(value string) *placed {
		if !readable {
			return nil
		}
		p := placeOf(&root, reflect.TypeOf(into), line, value)
		if p != nil {
			position += fmt.Sprintf(":%d", p.column)
		}
		return p
	}
	if m := unknownField.FindStringSubmatch(said); m != nil {
		twice := strings.Contains(said, "already set")
		said = "unknown field " + m[1]
		if p := place(m[1]); twice {
			said = fmt.Sprintf("field %s is there twice: want it once", m[1])
		} else if p != nil && len(p.fields) > 0 {
			said += ": want " + strings.Join(p.fields, ", ")
		}
	} else if m := illTyped.FindStringSubmatch(said); m != nil {
		place(m[2])
		what := map[string]string{"seq": "a list", "map": "keys and values", "null": "nothing"}[m[1]]
		if m[2] != "" {
			what = strconv.Quote(m[2])
		}
		said = fmt.Sprintf("%s: want %s", cmp.Or(what, "a value"), wanted(m[3]))
	} else if m := quotedValue.FindStringSubmatch(said); m != nil {
		place(m[1])
	} else {
		place("")
	}
	return fmt.Errorf("%s: %s", position, said)
}

// wanted says in words what a Go type takes.
func wanted(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case strings.HasPrefix(goType, "uint"):
		return "a whole number of 0 or more"
	case strings.HasPrefix(goType, "int"):
		return "a whole number"
	case strings.HasPrefix(goType, "float"):
		return "a number"
	case goType == "bool":
		return "true or false"
	case goType == "string":
		return "a text"
	}
	return "keys and values"
}

// placed is where a key or value stands, and for a key what else may stand there.
type placed struct {
	column int
	fields []string
}

// placeOf finds the first key or value on a line that reads value, or if none
// does the first on it; t is the type that the whole is decoded into.
func placeOf(root *yaml.Node, t reflect.Type, line int, value string) *placed {
	var first, found *placed
	var walk func(n *yaml.Node, t reflect.Type)
	see := func(n *yaml.Node, fields []string) {
		if n.Line != line {
			return
		}
		p := &placed{n.Column, fields}
		if first == nil {
			first = p
		}
		// yaml cuts long values short.
		cut, isCut := strings.CutSuffix(value, "...")
		if found == nil && value != "" && (n.Value == value || isCut && strings.HasPrefix(n.Value, cut)) {
			found = p
		}
	}
	walk = func(n *yaml.Node, t reflect.Type) {
		for t != nil && t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch n.Kind {
		case yaml.DocumentNode:
			for _, c := range n.Content {
				walk(c, t)
			}
		case yaml.MappingNode:
			fields := fieldsOf(t)
			var names []string
			for _, f := range fields {
				names = append(names, f.name)
			}
			for i := 0; i+1 < len(n.Content); i += 2 {
				see(n.Content[i], names)
				walk(n.Content[i+1], elementOf(t, fields, n.Content[i].Value))
			}
		case yaml.SequenceNode:
			see(n, nil)
			for _, c := range n.Content {
				walk(c, elementOf(t, nil, ""))
			}
		default:
			see(n, nil)
		}
	}
	walk(root, t)
	if found != nil {
		return found
	}
	return first
}

type specField struct {
	name string
	of   reflect.Type
}

// fieldsOf are the keys that a struct is decoded from.
func fieldsOf(t reflect.Type) (fields []specField) {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case options == "inline":
			fields = append(fields, fieldsOf(f.Type)...)
		case name == "-" || !f.IsExported():
		default:
			fields = append(fields, specField{cmp.Or(name, strings.ToLower(f.Name)), f.Type})
		}
	}
	return fields
}

// elementOf is the type of what stands under a key, or in a list.
func elementOf(t reflect.Type, fields []specField, key string) reflect.Type {
	for _, f := range fields {
		if f.name == key {
			return f.of
		}
	}
	if t != nil && (t.Kind() == reflect.Map || t.Kind() == reflect.Slice) {
		return t.Elem()
	}
	return nil
}

// nodeAt finds what a path of keys and indices leads to, or as much of it as is
// there. A value under a key is found at its key.
func nodeAt(n *yaml.Node, path []string) *yaml.Node {
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	at := n
	for _, key := range path {
		var next *yaml.Node
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
	return at
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
