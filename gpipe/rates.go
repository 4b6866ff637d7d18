package gpipe

import (
	"fmt"
	"math"
	"path"
	"strings"

	"gpipebench/nn"
)

// Rate is a factor of the learning rate of some parameters.
type Rate struct {
	// Path is that of a parameter, or its first elements, such as "layer1" for everything
	// in that layer. An element may be a pattern, as of [path.Match]: "layer*/attention".
	Path string
	// Factor multiplies the learning rate; at least 0. With 0 the parameters are frozen:
	// they keep their bits, their gradients are computed and do not count in the norm that
	// is clipped, and their optimiser's state does not move.
	Factor float64
}

// matches reports whether a rate is for the parameter with a path.
func (r Rate) matches(param string) bool {
	pattern, elements := strings.Split(r.Path, "/"), strings.Split(param, "/")
	if len(pattern) > len(elements) {
		return false
	}
	for i, p := range pattern {
		if ok, err := path.Match(p, elements[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// rate is the factor of the learning rate of the parameter with a path.
func (p Pipeline) rate(param string) float64 {
	for _, r := range p.Rates {
		if r.matches(param) {
			return r.Factor
		}
	}
	return 1
}

// checkRates refuses rates that no parameter has. owner has all parameters by path.
func (p Pipeline) checkRates(owner map[string]*nn.Param) error {
	for i, r := range p.Rates {
		if !(r.Factor >= 0) || math.IsInf(r.Factor, 0) {
			return fmt.Errorf("rate %d, of %q: a factor of %v: want 0 or more", i, r.Path, r.Factor)
		}
		if _, err := path.Match(r.Path, ""); err != nil {
			return fmt.Errorf("rate %d: %q: %w: want a path whose elements are patterns such as layer*", i, r.Path, err)
		}
		used := false
		for param, q := range owner {
			used = used || !q.Frozen && r.matches(param)
		}
		if !used {
			return fmt.Errorf("rate %d: no trained parameter's path begins with %q: want one such as %s", i, r.Path, p.somePath())
		}
	}
	return nil
}

// somePath is the path of the first trained parameter.
func (p Pipeline) somePath() string {
	for _, l := range p.Layers {
		for _, q := range l.Params() {
			if !q.Frozen {
				return nn.ScopeOf(l) + "/" + q.Name
			}
		}
	}
	return "none, since nothing is trained"
}
