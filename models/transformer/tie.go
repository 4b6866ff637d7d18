package transformer

import (
	"fmt"
	"slices"
	"strings"
)

// Tie says which of a translation model's three vocabulary tables are one
// parameter: the embedding of the source, that of the target, and the weight of
// the softmax (Press and Wolf 2017; Vaswani et al. 2017, section 3.4).
type Tie uint8

const (
	TieNone    Tie = iota // three tables
	TieSoftmax            // the softmax uses the target's table: two tables
	TieAll                // source and target have one vocabulary, and all three are one table
)

var ties = []string{"none", "softmax", "all"}

// tieNames lists the values for messages.
var tieNames = strings.Join(ties[:len(ties)-1], ", ") + " or " + ties[len(ties)-1]

func (t Tie) String() string {
	if int(t) < len(ties) {
		return ties[t]
	}
	return fmt.Sprintf("Tie(%d)", uint8(t))
}

// ParseTie is the inverse of String.
func ParseTie(s string) (Tie, error) {
	if i := slices.Index(ties, s); i >= 0 {
		return Tie(i), nil
	}
	return 0, fmt.Errorf("unknown tying %q: want %s", s, tieNames)
}
