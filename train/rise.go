package train

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"gpipebench/internal/printable"
)

// Rise says with what an AmoebaNet's drop-path rises to its rate.
type Rise string

const (
	RiseDepth Rise = "depth" // with the cells, as "v2" of the official code; also ""
	RiseSteps Rise = "steps" // with the steps of the training, as its "v1"
	RiseBoth  Rise = "both"  // as its "v3"
)

// Rises lists the names that ParseRise reads.
var Rises = []string{string(RiseDepth), string(RiseSteps), string(RiseBoth)}

// ParseRise reads a Rise; "" is RiseDepth.
func ParseRise(s string) (Rise, error) {
	switch {
	case s == "":
		return RiseDepth, nil
	case !slices.Contains(Rises, s):
		return "", fmt.Errorf("unknown rise %s: want %s", printable.Quoted(s), strings.Join(Rises, ", "))
	}
	return Rise(s), nil
}

func (r *Rise) UnmarshalYAML(n *yaml.Node) (err error) {
	*r, err = ParseRise(n.Value)
	return err
}
