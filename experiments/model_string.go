package experiments

import (
	"fmt"
	"strings"
)

// String names the network and its scale.
func (m Model) String() string {
	var scale []string
	add := func(name string, n int) {
		if n != 0 {
			scale = append(scale, fmt.Sprintf("%s %d", name, n))
		}
	}
	switch m.Name {
	case amoebaNet, convNet:
		add("layers", m.Layers)
		add("filters", m.Filters)
	case languageModel, translator:
		for _, n := range []struct {
			name string
			n    int
		}{{"layers", m.Layers}, {"dimension", m.Dim}, {"feed-forward", m.FF}, {"heads", m.Heads}, {"vocabulary", m.Vocab}, {"sequence", m.Seq}} {
			add(n.name, n.n)
		}
	default:
		add("width", m.Width)
	}
	if m.images() {
		add("images of", m.Image)
		add("classes", m.Classes)
	}
	return m.Name + " (" + strings.Join(scale, ", ") + ")"
}
