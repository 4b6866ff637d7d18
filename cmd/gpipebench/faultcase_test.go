//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"gpipebench/internal/testkit"
)

// fault is a case. Status is 2 for usage errors, 1 for failures, 0 for success,
// -1 for an end by a signal; other fields that are not given are as in
// defaults.
type fault struct {
	Name       string
	Files      map[string]file // created first; missing directories of their paths are made
	Before     []string        // command lines that must succeed
	Damage     map[string]file // changes of existing files, made next
	Run        []string        // arguments: a list, or words separated by spaces
	Stdin      string
	StdinFile  string `yaml:"stdin_file"`
	StdoutFile string `yaml:"stdout_file"`
	Umask      string
	Signal     *sent
	Apart      bool // in a process of its own; those of some of the fields above are anyway
	Short      bool // also with -short: the first case, if there are several

	Status  int
	Stderr  int               // lines, at most
	Stdout  int               // lines, at most
	Says    []string          // substrings of the last line on standard error
	SaysNot []string          `yaml:"says_not"` // substrings that must occur nowhere in its output
	Prints  []string          // substrings of standard output
	Seconds float64           // most processor time
	MiB     int64             `yaml:"mib"` // most memory: all that is allocated or, in a process of its own, what it maps to write to
	Makes   []string          // files that it must make; dir/ with everything in it
	Changes []string          // existing files that it must change
	Modes   map[string]string // of files afterwards, such as -rw-r-----
}

var defaults = fault{Umask: "022", Status: 99, Stderr: 1, Seconds: 10, MiB: 256}

// loadCases reads a file of cases. A case with rows or with values of keys, each, stands for
// several: enough for every row and every value of each key to be in one, or in make deep one
// per combination. {key} is replaced by the value, in a command line as part of one word. There
// {key...} is split at spaces like the rest of the line, and !yaml "{key}" is the value parsed
// as YAML.
func loadCases(name, repository string) ([]*fault, error) {
	raw, err := cases.ReadFile("faults/" + name)
	if err != nil {
		return nil, err
	}
	var nodes []struct {
		Each map[string][]string
		Rows []map[string]string
		Case yaml.Node
	}
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(&nodes); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var all []*fault
	seen := map[string]bool{}
	for _, n := range nodes {
		for i, row := range combined(n.Rows, n.Each) {
			c := defaults
			if err := filledCase(&n.Case, row, repository).Decode(&c); err != nil {
				return nil, fmt.Errorf("%s, line %d: %w", name, n.Case.Line, err)
			}
			if c.Status == defaults.Status {
				return nil, fmt.Errorf("%s, line %d: no status", name, n.Case.Line)
			}
			c.Name = strings.Map(func(r rune) rune {
				if r < ' ' || r == 0x7f {
					return '?'
				}
				return r
			}, first(c.Name, 300))
			if seen[c.Name] {
				return nil, fmt.Errorf("%s, line %d: two cases %q", name, n.Case.Line, c.Name)
			}
			seen[c.Name] = true
			c.Short = c.Short && i == 0
			all = append(all, &c)
		}
	}
	return all, nil
}

// combined returns rows with a value of each key.
func combined(rows []map[string]string, each map[string][]string) []map[string]string {
	if rows == nil {
		rows = []map[string]string{{}}
	}
	keys := slices.Sorted(maps.Keys(each))
	most, product := len(rows), len(rows)
	for _, key := range keys {
		most, product = max(most, len(each[key])), product*len(each[key])
	}
	all := make([]map[string]string, most)
	for i := range all {
		all[i] = maps.Clone(rows[i%len(rows)])
		for _, key := range keys {
			all[i][key] = each[key][i%len(each[key])]
		}
	}
	if !testkit.IsDeep() {
		return all
	}
	all = make([]map[string]string, product)
	for i := range all {
		all[i] = maps.Clone(rows[i%len(rows)])
		rest := i / len(rows)
		for _, key := range keys {
			all[i][key] = each[key][rest%len(each[key])]
			rest /= len(each[key])
		}
	}
	return all
}

// tinyNetwork describes a network that trains in milliseconds: {tiny} in a command
// line.
const tinyNetwork = "--layers=2 --dim=16 --ff=32 --heads=2 --seq=8 --batch=4 --vocab=64"

// filledCase copies a case and replaces the keys of a row in it.
func filledCase(n *yaml.Node, row map[string]string, repository string) *yaml.Node {
	var own, cut []string // pairs for replacement within a word, and into several words
	for key, value := range row {
		own = append(own, "{"+key+"}", value)
		cut = append(cut, "{"+key+"...}", value)
	}
	words, names := strings.NewReplacer(cut...), strings.NewReplacer(own...)
	constants := strings.NewReplacer("{repository}", repository, "{long}", strings.Repeat("x", 100_000), "{name256}", strings.Repeat("n", 256))
	var walk func(n *yaml.Node) *yaml.Node
	walk = func(n *yaml.Node) *yaml.Node {
		c := *n
		c.Content = nil
		if c.Kind == yaml.ScalarNode {
			if v := constants.Replace(names.Replace(c.Value)); v != c.Value {
				c.Value, c.Tag = v, ""
				if c.Style = 0; c.Value == "" || strings.ContainsAny(c.Value, "\n\x00") {
					c.Style, c.Tag = yaml.DoubleQuotedStyle, "!!str"
				}
			}
		}
		if n.Tag == "!yaml" { // a value that may be more than a word
			var document yaml.Node
			if err := yaml.Unmarshal([]byte(c.Value), &document); err != nil || len(document.Content) != 1 {
				panic(fmt.Sprintf("line %d: %q: %v", n.Line, c.Value, err))
			}
			return document.Content[0]
		}
		for i, child := range n.Content {
			switch key := n.Content[i-i%2].Value; {
			case n.Kind == yaml.MappingNode && i%2 == 1 && key == "name":
				name := *child
				name.Value, name.Style = names.Replace(child.Value), yaml.DoubleQuotedStyle
				child = &name
			case n.Kind == yaml.MappingNode && i%2 == 1 && key == "run" && child.Kind == yaml.ScalarNode:
				list := &yaml.Node{Kind: yaml.SequenceNode}
				for _, w := range strings.Fields(strings.ReplaceAll(words.Replace(child.Value), "{tiny}", tinyNetwork)) {
					list.Content = append(list.Content, walk(&yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Tag: "!!str", Value: w}))
				}
				child = list
			default:
				child = walk(child)
			}
			c.Content = append(c.Content, child)
		}
		return &c
	}
	return walk(n)
}
