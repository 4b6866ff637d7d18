package published

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/files"
	"gpipebench/internal/yamldoc"
)

// Tables is a file of measured tables of large trainings: the form of published-tables.yaml, whose
// head says what each field means.
type Tables struct {
	Schema       string     `yaml:"schema" want:"schema"`
	Units        forReaders `yaml:"units" want:"optional"`
	Defaults     forReaders `yaml:"defaults" want:"optional"`
	Formulas     forReaders `yaml:"formulas" want:"optional"`
	Sources      forReaders `yaml:"sources" want:"optional"`
	Efficiencies forReaders `yaml:"efficiencies" want:"optional"`
	Devices      []Device   `yaml:"devices"`
	Nodes        []Node     `yaml:"nodes" want:"optional"`
	Tables       []Table    `yaml:"tables"`
}

// forReaders is a part of the file that is there for its readers, in any form.
type forReaders struct{}

func (forReaders) UnmarshalYAML(*yaml.Node) error { return nil }

// Device is an accelerator.
type Device struct {
	ID         string             `yaml:"id" want:"name,key"`
	PeakTFLOPS map[string]float64 `yaml:"peak_tflops" want:"null,>0..1e6"` // by precision; 1e12 FLOP/s, without sparsity
	MemoryGB   float64            `yaml:"mem_gb" want:"null,>0..1e6"`      // 1e9 bytes
	MemoryGBs  float64            `yaml:"mem_gb_s" want:"null,>0..1e6"`    // 1e9 bytes/s
	Efficiency string             `yaml:"efficiency" want:"null"`
	Kind       string             `yaml:"kind" want:"kind,null"`
	Source     string             `yaml:"src" want:"null"`
	Note       string             `yaml:"note" want:"null"`
}

// Node is devices with a fast link between them, and the link from each to other nodes.
type Node struct {
	ID         string  `yaml:"id" want:"name,key"`
	Devices    int     `yaml:"gpus_per_node" want:"null"`
	LinkGB     float64 `yaml:"link_gb_s" want:"null,>0..1e6"`        // 1e9 bytes/s, one direction of a device
	FarGB      float64 `yaml:"far_gb_s_per_gpu" want:"null,>0..1e6"` // the same, between nodes
	Efficiency string  `yaml:"efficiency" want:"null"`               // of the link within the node
	Source     string  `yaml:"src" want:"null"`
	Note       string  `yaml:"note" want:"null"`
}

// Table is rows of one publication.
type Table struct {
	ID        string             `yaml:"id" want:"name,key"`
	Title     string             `yaml:"title" want:"null"`
	Mark      string             `yaml:"mark" want:"null"`
	Device    string             `yaml:"device" want:"null"`
	Node      string             `yaml:"node" want:"null"`
	Framework string             `yaml:"framework" want:"null"`
	Modelled  string             `yaml:"modelled" want:"null"` // no: why
	Common    Row                `yaml:"common" want:"partial"`
	Assume    map[string]Assumed `yaml:"assume" want:"optional,null"`
	Notes     string             `yaml:"notes" want:"null"`
	Rows      []Row              `yaml:"rows" want:"entries=20000"`

	assumed Row // what Assume says
}

// Assumed is what a row does not state, and why it is taken.
type Assumed struct {
	Value scalar `yaml:"value"`
	Why   string `yaml:"why" want:"null"`
}

// Row is one measured number and the training that it was measured of. What is not stated is 0, empty
// or nil; a row of [Tables.Read] has what it takes from its table.
type Row struct {
	ID         string `yaml:"id" want:"name,key"`
	Source     string `yaml:"src" want:"null"`
	Line       string `yaml:"line" want:"null"` // of the source
	Device     string `yaml:"device" want:"null"`
	Node       string `yaml:"node" want:"null"`
	Framework  string `yaml:"framework" want:"null"`
	Model      string `yaml:"model" want:"null"`
	Class      string `yaml:"model_class" want:"class,null"`
	Variant    string `yaml:"variant" want:"null"` // what else tells rows of one configuration apart
	Modelled   string `yaml:"modelled" want:"null"`
	Suspect    string `yaml:"suspect" want:"null"`
	Note       string `yaml:"note" want:"null"`
	Definition string `yaml:"definition" want:"null"`
	Printed    string `yaml:"as_printed" want:"null"`
	Derived    string `yaml:"derived" want:"null"`
	Optimizer  string `yaml:"optimizer" want:"null"`

	What  string   `yaml:"what" want:"what,null"`
	Value *float64 `yaml:"value" want:"null,>0..1e18"` // seconds or bytes; otherwise see Definition
	OOM   bool     `yaml:"oom" want:"null"`            // it did not fit

	Layers  int    `yaml:"layers" want:"null"`
	Hidden  int    `yaml:"hidden" want:"null"`
	FF      int    `yaml:"ffn" want:"null"` // 0: 4 * Hidden
	Heads   int    `yaml:"heads" want:"null"`
	KVHeads int    `yaml:"kv_heads" want:"null"` // 0: Heads
	Vocab   int    `yaml:"vocab" want:"null"`
	Seq     int    `yaml:"seq" want:"null"` // tokens
	MLP     string `yaml:"mlp" want:"mlp,null"`
	Tied    *bool  `yaml:"tied" want:"null"` // the embedding and the softmax share their table

	Devices   int    `yaml:"gpus" want:"null"`
	Tensor    int    `yaml:"tp" want:"null"`
	Pipeline  int    `yaml:"pp" want:"null"`
	Chunks    int    `yaml:"v" want:"null"`  // of a stage; 0: 1
	Replicas  int    `yaml:"dp" want:"null"` // 0: Devices/(Tensor*Pipeline*Context)
	Context   int    `yaml:"cp" want:"null"` // 0: 1
	Experts   int    `yaml:"ep" want:"null"`
	Sequence  *bool  `yaml:"sp" want:"null"` // Megatron's sequence parallelism
	ZeRO      *int   `yaml:"zero" want:"0..3,null"`
	Recompute string `yaml:"recompute" want:"recomputation,null"`
	Schedule  string `yaml:"schedule" want:"timetable,null"`
	Precision string `yaml:"precision" want:"precision,null"`
	Micro     int    `yaml:"mbs" want:"null"` // sequences of a micro-batch
	Batch     int    `yaml:"gbs" want:"null"` // sequences of a mini-batch
}

// scalar is a value of any field of a row.
type scalar struct{ yaml.Node }

func (s *scalar) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return yamldoc.WantError("a value")
	}
	s.Node = *n
	return nil
}

var vocabularies = yamldoc.Vocabularies{
	"schema": yamldoc.OneOf("scoreboard-tables/1"),
	"kind":   yamldoc.OneOf("datasheet", "microbenchmark", "assumed"),
	"class":  yamldoc.OneOf("dense", "moe"),
	"what": yamldoc.OneOf(stepSeconds, peakBytes, "layer_forward_s", "layer_backward_s", "tflops_per_gpu", "mfu", "tokens_per_s_gpu", "accelerator_s",
		"phase_f1_s", "phase_b1_s", "phase_w1_s", "phase_f1b1_s", "phase_opt_s", "phase_bubble_s"),
	"precision":     yamldoc.OneOf(append(slices.Clone(precisions), "tf32", "fp8", "mxfp8", "nvfp4")...),
	"mlp":           yamldoc.OneOf("gelu", "swiglu", "relu", "geglu"),
	"recomputation": yamldoc.OneOf("none", "selective", "full"),
	"timetable":     yamldoc.OneOf(append([]string{"none", "zb-1p", "zb-2p", "dualpipe"}, schedule.Names()...)...),
}

// fileKind bounds a file of tables to twenty times ours.
var fileKind = files.Kind{What: "a file of published tables", Bytes: 4 << 20}

//go:embed predictions/tables.yaml
var committed []byte

// Committed are the tables that come with the program.
var Committed = sync.OnceValue(func() *Tables {
	t, err := Parse("experiments/published/predictions/tables.yaml", committed)
	if err != nil {
		panic(err) // it is part of the program
	}
	return t
})

// Read reads a file of tables.
func Read(name string) (*Tables, error) {
	text, err := files.Read(name, fileKind)
	if err != nil {
		return nil, err
	}
	return Parse(name, text)
}

// Parse reads the text of a file of tables: every error is one line that begins with file:line:column.
func Parse(name string, text []byte) (*Tables, error) {
	t := &Tables{}
	err := yamldoc.Decode(name, text, t, vocabularies, t.check)
	if err != nil {
		return nil, err
	}
	return t, t.complete(text)
}

// check refuses a device or node that is not in the file, rows of one ID, and assumptions that are not
// of a row's fields.
func (t *Tables) check() *yamldoc.Problem {
	of := map[string]string{}
	for i := range t.Tables {
		table, at := &t.Tables[i], []string{"tables", strconv.Itoa(i)}
		if p := t.known(table.Device, table.Node).In(at...); p != nil {
			return p
		}
		if p := t.known(table.Common.Device, table.Common.Node).In("common").In(at...); p != nil {
			return p
		}
		for _, key := range slices.Sorted(maps.Keys(table.Assume)) {
			if p := table.checkAssumed(key); p != nil {
				return p.In(at...)
			}
		}
		for n, row := range table.Rows {
			at := append(slices.Clone(at), "rows", strconv.Itoa(n))
			if p := t.known(row.Device, row.Node).In(at...); p != nil {
				return p
			}
			if first := of[row.ID]; first != "" {
				return yamldoc.At(fmt.Errorf("%s is a row of table %s: want another", row.ID, first), append(at, "id")...)
			}
			of[row.ID] = table.ID
			if row.What == "" && table.Common.What == "" {
				return yamldoc.At(errors.New("no what: want what the value is, such as step_s or peak_bytes"), at...)
			}
		}
	}
	return nil
}

// known refuses the name of a device or a node that the file does not describe.
func (t *Tables) known(device, node string) *yamldoc.Problem {
	if device != "" && t.device(device) == nil {
		return yamldoc.At(fmt.Errorf("unknown device %q: want an id of devices", device), "device")
	}
	if node != "" && t.node(node) == nil {
		return yamldoc.At(fmt.Errorf("unknown node %q: want an id of nodes", node), "node")
	}
	return nil
}

// checkAssumed refuses an assumption that is not of a row's field, or of a value that it does not take.
func (t *Table) checkAssumed(key string) *yamldoc.Problem {
	value := t.Assume[key].Value.Node
	text, err := yaml.Marshal(map[string]*yaml.Node{"assumed": mapping(key, &value)})
	if err != nil {
		return yamldoc.At(err, "assume", key)
	}
	var of struct {
		Assumed Row `yaml:"assumed" want:"partial"`
	}
	if err := yamldoc.Decode("", text, &of, vocabularies, nil); err != nil {
		_, why, _ := strings.Cut(err.Error(), ": ") // of what comes before: a place in this text
		return yamldoc.At(errors.New(strings.TrimPrefix(why, "assumed."+key+": ")), "assume", key, "value")
	}
	return nil
}

// mapping is the mapping of one key to a value.
func mapping(key string, value *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value}}
}

// complete gives rows what they take from their tables, unless they say otherwise, be it null.
func (t *Tables) complete(text []byte) error {
	var raw struct {
		Tables []struct {
			Device    yaml.Node   `yaml:"device"`
			Node      yaml.Node   `yaml:"node"`
			Framework yaml.Node   `yaml:"framework"`
			Modelled  yaml.Node   `yaml:"modelled"`
			Common    yaml.Node   `yaml:"common"`
			Rows      []yaml.Node `yaml:"rows"`
		} `yaml:"tables"`
	}
	if err := yaml.Unmarshal(text, &raw); err != nil {
		return err
	}
	for i := range raw.Tables {
		from, table := &raw.Tables[i], &t.Tables[i]
		var assumed []*yaml.Node
		for key, a := range table.Assume {
			assumed = append(assumed, mapping(key, &a.Value.Node))
		}
		if err := merged(assumed...).Decode(&table.assumed); err != nil {
			return err
		}
		common := []*yaml.Node{mapping("device", &from.Device), mapping("node", &from.Node), mapping("framework", &from.Framework), mapping("modelled", &from.Modelled), &from.Common}
		for n := range from.Rows {
			table.Rows[n] = Row{}
			if err := merged(append(common, &from.Rows[n])...).Decode(&table.Rows[n]); err != nil {
				return err
			}
		}
	}
	return nil
}

// merged is one mapping of several, the later of which replace values of those before.
func merged(mappings ...*yaml.Node) *yaml.Node {
	all, at := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}, map[string]int{}
	for _, m := range mappings {
		if m.Kind == yaml.AliasNode {
			m = m.Alias
		}
		for i := 0; i+1 < len(m.Content); i += 2 {
			key, value := m.Content[i], m.Content[i+1]
			if value.Kind == 0 { // of a field that is missing
				continue
			}
			if n, ok := at[key.Value]; ok {
				all.Content[n] = value
				continue
			}
			at[key.Value] = len(all.Content) + 1
			all.Content = append(all.Content, key, value)
		}
	}
	return all
}

func (t *Tables) device(id string) *Device {
	i := slices.IndexFunc(t.Devices, func(d Device) bool { return d.ID == id })
	if i < 0 {
		return nil
	}
	return &t.Devices[i]
}

func (t *Tables) node(id string) *Node {
	i := slices.IndexFunc(t.Nodes, func(n Node) bool { return n.ID == id })
	if i < 0 {
		return nil
	}
	return &t.Nodes[i]
}
