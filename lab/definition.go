package lab

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"gpipebench/gpipe/accelerator"
	"gpipebench/internal/machine"
	"gpipebench/internal/yamldoc"
	"gpipebench/lab/records"
)

// Definition is an experiment's entry in the list. Its command, its Make
// target, its place in the report and its line in README.md follow from it.
type Definition struct {
	ID string // that its spec begins with: of its records, its command, its section of its paper's page
	// Folder has spec.yaml and about.md, or a folder of the ID with them.
	Folder embed.FS
	// Part is the heading, in the contents of its paper's page, of it and of those after it.
	Part string
	New  func() (Experiment, error) // nil: its spec names a kind that suffices
	// Command is the experiment whose command runs this one as well; "": it has one
	// of its own.
	Command string
	// Apart says that it runs only if it or its paper is asked for by name, and that it is on a page of
	// the paper's experiments that are apart, whose name is the first one's ID, its title that one's Part.
	Apart bool
	// Untimed says that nothing of its samples is timed: they are the same on all machines, so
	// that what one has begun goes on on another.
	Untimed bool
	// TypedActivations says that its spec may have a dtype at its top, that of all trainings'
	// activations.
	TypedActivations bool
	// Hashes says that its command, whose runs are of one machine, also compares the weights of
	// train/golden's trainings with the published ones, of all machines.
	Hashes bool
}

// Paper is a publication, or what no publication has: a folder with claims and a folder
// for each experiment. Its command, its name for --paper and its page follow from it.
type Paper struct {
	Name   string // of its folder
	Title  string // of its page; before a colon, its name in the list of pages
	Of     string // claims of what, in a sentence
	Claims []byte // claims.yaml
	// Picture is the experiment whose figure, of its name, says most about the paper; "": none.
	Picture string
	// Experiments are in the order in which they run and the page has them.
	Experiments []Definition
}

// Embedded is a paper with the claims in a folder, and the folders in it for experiments that
// have none of their own.
func (p Paper) Embedded(folder embed.FS) Paper {
	claims, err := folder.ReadFile("claims.yaml")
	if err != nil {
		panic(fmt.Sprintf("lab: paper %s: %v", p.Name, err)) // it is part of the program
	}
	p.Claims = claims
	for i := range p.Experiments {
		if d := &p.Experiments[i]; d.Folder == (embed.FS{}) {
			d.Folder = folder
		}
	}
	return p
}

// Experiment is the entry of an ID.
func (p Paper) Experiment(id string) Definition {
	i := slices.IndexFunc(p.Experiments, func(d Definition) bool { return d.ID == id })
	if i < 0 {
		panic(fmt.Sprintf("lab: paper %s has no experiment %s", p.Name, id))
	}
	return p.Experiments[i]
}

// kinds make experiments, by the names that specs have for their kinds.
var kinds = map[string]func() Experiment{}

// RegisterKind adds a kind of experiments that need nothing but a spec. The package of the
// kind calls it when it is initialised.
func RegisterKind(name string, New func() Experiment) {
	if kinds[name] != nil {
		panic("lab: two kinds " + name)
	}
	kinds[name] = New
}

// make makes an experiment, by its own code or by the kind that its spec names.
func (d Definition) make() (Experiment, error) {
	if d.New != nil {
		return d.New()
	}
	kind := d.line("kind")
	if kinds[kind] == nil {
		panic(fmt.Sprintf("lab: experiment %s is of kind %q: want one of %s", d.ID, kind, strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")))
	}
	return kinds[kind](), nil
}

// AllPapers stands for the names of all of them.
const AllPapers = "all"

// New makes an experiment that needs nothing but its spec.
func New[E any, P interface {
	*E
	Experiment
}]() (Experiment, error) {
	return P(new(E)), nil
}

// Load makes an experiment by its spec, or by the file that is given instead.
func (d Definition) Load(from ...SpecFile) (Experiment, error) {
	e, err := d.make()
	if err != nil {
		return nil, err
	}
	spec := d.SpecFile()
	if len(from) > 0 {
		spec = from[0]
	}
	root, err := e.Read(spec)
	if err != nil {
		return nil, err
	}
	var wrong *Problem
	if _, scored := e.(Scored); !scored && e.Registration(Profiles[0]) != nil {
		wrong = At(errors.New("this experiment has nothing that a design compares: want none"), "design")
	} else {
		wrong = e.Resolve()
	}
	if err := wrong.Located(spec.Name, root); err != nil {
		return nil, err
	}
	if d.Untimed {
		e.DoNotTime()
	}
	return e, nil
}

// Spec is the text of spec.yaml.
func (d Definition) Spec() string { return d.text("spec.yaml") }

// SpecFile is spec.yaml as a file of the user's would be.
func (d Definition) SpecFile() SpecFile { return SpecFile{d.ID + "/spec.yaml", d.ID, []byte(d.Spec())} }

// HasAxis reports whether the spec has a field at its top that SpecFile.With changes.
func (d Definition) HasAxis(name string) bool { return strings.Contains(d.Spec(), "\n"+name+": ") }

// Title returns the spec's title, read from its line alone: every command that is
// started lists the titles of all experiments.
func (d Definition) Title() string { return d.line("title") }

// line returns what the spec has in a field at its top, in one line.
func (d Definition) line(field string) string {
	line := regexp.MustCompile(`(?m)^` + field + `: .+$`).FindString(d.Spec())
	var found map[string]string
	if err := yaml.Unmarshal([]byte(line), &found); err != nil || found[field] == "" {
		panic(fmt.Sprintf("lab: experiment %s: want a %s in one line: %v", d.ID, field, err)) // it is part of the program
	}
	return found[field]
}

func (d Definition) text(name string) string {
	text, err := d.Folder.ReadFile(d.ID + "/" + name)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = d.Folder.ReadFile(name)
	}
	if err != nil {
		panic(fmt.Sprintf("lab: experiment %s: %v", d.ID, err)) // it is part of the program
	}
	return string(text)
}

// About is the text on an experiment, beside its tables.
type About struct {
	Place string // in the paper
	Text  string // what a reader of the report should know first
}

var aboutForm = regexp.MustCompile(`(?s)^# ([^\n]+)\n\n([^#]+)$`)

// About reads about.md: the place in the paper as its title, and the report's text.
func (d Definition) About() About {
	m := aboutForm.FindStringSubmatch(d.text("about.md"))
	if m == nil {
		panic(fmt.Sprintf("lab: experiment %s: about.md: want a title and a text", d.ID))
	}
	return About{Place: m[1], Text: strings.Join(strings.Fields(m[2]), " ")}
}

// Base is what every experiment embeds: its spec, of a type that embeds Head and
// has profiles, and what follows from it.
type Base[S any] struct {
	Spec S
	// Others is what else decides samples, such as another experiment's spec; nil:
	// nothing.
	Others func(profile string) string

	text    string
	untimed bool
	head    struct {
		Head     `yaml:",inline"`
		Profiles map[string]struct {
			ExpectedOnly `yaml:",inline"`
			Seeds        seedsOf `yaml:"seeds"`
			Pilots       seedsOf `yaml:"pilots"`
		} `yaml:"profiles"`
	}
}

// seedsOf are the seeds in a spec's field of any form: a list, or fields one of which has it.
type seedsOf []uint64

func (s *seedsOf) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.MappingNode {
		n = yamldoc.NodeAt(n, []string{"seeds"}, true)
	}
	if n.Decode((*[]uint64)(s)) != nil {
		*s = nil
	}
	return nil
}

// Read decodes a spec, and checks what all experiments' specs have. It returns the document, in which
// a problem that Resolve finds has its place.
func (b *Base[S]) Read(from SpecFile) (*yaml.Node, error) {
	b.text = string(from.Text)
	root, err := yamldoc.Read(from.Name, from.Text, &b.Spec, vocabularies)
	if err == nil {
		err = b.readHead().Located(from.Name, root)
	}
	return root, err
}

// readHead decodes the head and the profiles of the spec, and checks them.
func (b *Base[S]) readHead() *Problem {
	if err := yaml.Unmarshal([]byte(b.text), &b.head); err != nil {
		return At(err)
	}
	if err := checkFinding(b.head.Finding); err != nil {
		return At(err, "finding")
	}
	if p := checkProfiles(b.head.Profiles); p != nil {
		return p
	}
	if d := b.head.Design; d != nil {
		return d.check(func(profile string) []uint64 { return b.head.Profiles[profile].Seeds }).In("design")
	}
	return nil
}

func (b *Base[S]) ID() string { return b.head.Experiment }

func (b *Base[S]) Title() string { return b.head.Title }

// Seed returns the spec's seed.
func (b *Base[S]) Seed() uint64 { return b.head.Seed }

func (b *Base[S]) Registration(profile string) *Registration {
	if b.head.Design == nil {
		return nil
	}
	p := b.head.Profiles[profile]
	return &Registration{b.head.Design, profile, p.Seeds, append(slices.Clone([]uint64(p.Pilots)), b.head.Seed)}
}

func (b *Base[S]) Expected(profile string) time.Duration {
	return time.Duration(b.head.Profiles[profile].Expected)
}

// DoNotTime says that nothing of the samples is timed.
func (b *Base[S]) DoNotTime() { b.untimed = true }

func (b *Base[S]) Key(profile string) records.Key {
	k := records.Key{Experiment: b.ID(), Profile: profile, Spec: machine.Digest(b.Decides(profile))}
	if !b.untimed {
		k.Machine = machine.This().Key()
	}
	return k
}

// Says returns, as text, what the spec says for a profile: without other profiles and
// without fields that are only shown.
func (b *Base[S]) Says(profile string) string {
	return b.says(func(path []string) bool { return otherProfile(path, profile) })
}

func (b *Base[S]) says(skip func(path []string) bool) string {
	return yamldoc.Deciding([]byte(b.text), &b.Spec, skip)
}

// otherProfile reports whether a place in a spec is a profile of another name.
func otherProfile(path []string, name string) bool {
	return len(path) == 2 && path[0] == "profiles" && path[1] != name
}

// Decides returns what decides a profile's samples, as text: what the spec says for it,
// the figures of the accelerators that it names, and Others.
func (b *Base[S]) Decides(profile string) string { return b.Says(profile) + b.others(profile) }

func (b *Base[S]) others(profile string) string {
	text := Figures(&b.Spec)
	if b.Others != nil {
		text += b.Others(profile)
	}
	return text
}

// Conditions is Decides without the K and M of a spec that has a Grid. Samples under the same
// conditions are the same if they have the same name, which has the cell.
func (b *Base[S]) Conditions(profile string) string {
	_, grid := any(&b.Spec).(interface{ Cells() []Cell })
	return b.says(func(path []string) bool {
		return otherProfile(path, profile) || grid && len(path) == 1 && (path[0] == "k" || path[0] == "m")
	}) + b.others(profile)
}

// Figures returns the peak figures of every accelerator that a spec, or a part of it,
// names, in its order, without descriptions and sources.
func Figures(spec any) (text string) {
	for _, name := range yamldoc.Words(spec, "accelerator") {
		a, err := accelerator.Named(name)
		if err != nil {
			panic(err) // specs are checked
		}
		text += a.Figures()
	}
	return text
}

// AtRates is the name of a sample that is modelled on an accelerator of the given name,
// with a change (nil: none). At its peak, whose figures are in the key, it is the sample's
// own. Otherwise it also names the accelerator's efficiencies, so that other efficiencies
// make other samples while what else has the same key, such as timed steps, stays.
func AtRates(sample, on string, change func(*accelerator.Accelerator)) string {
	a, err := accelerator.Named(on)
	if err != nil {
		panic(err) // specs are checked
	}
	if change != nil {
		change(a)
	}
	if e := a.Efficient(); e != "" {
		return sample + "/efficiencies=" + e
	}
	return sample
}
