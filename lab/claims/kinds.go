package claims

import (
	"gopkg.in/yaml.v3"

	"gpipebench/internal/yamldoc"
	"gpipebench/lab"
)

// Kind says how a claim is judged.
type Kind string

const (
	// Count claims are recomputed, and fail where they do not come out.
	Count Kind = "count"
	// Derived claims are arithmetic on figures that the paper prints. Nothing that is
	// measured here can refute them, so they never count as reproduced.
	Derived Kind = "derived"
	// Ratio claims are figures of the paper's machines. That ours differ is shown,
	// and is no failure.
	Ratio Kind = "ratio"
	// Trend claims are conditions that this suite must show, and fail where they do not
	// hold.
	Trend Kind = "trend"
	// StandIn claims are shown in small or on modelled devices only. That ours disagree
	// is shown, and is no failure.
	StandIn Kind = "stand-in"
	// Contradiction is the evidence that the paper contradicts itself or arithmetic.
	// It fails where the evidence does not hold.
	Contradiction Kind = "contradiction"
	// Ours are promises about this suite's own tools. They fail as trends do.
	Ours Kind = "ours"
	// Extension claims are what no paper says and this suite asks, such as one paper's
	// schedules in another's tables. That one does not hold is shown, and is no failure.
	Extension Kind = "extension"
	// Tested are properties of the program that no table shows: a test holds them.
	Tested Kind = "tested"
	// NotHere is what cannot be reproduced on an ordinary machine.
	NotHere Kind = "not here"
	// NotYet is what has not been attempted.
	NotYet Kind = "not yet"
)

// Kinds lists the kinds in the order of the report.
var Kinds = []Kind{Count, Ratio, Trend, StandIn, Contradiction, Derived, Ours, Extension, Tested, NotHere, NotYet}

// judged reports whether claims of the kind have a check.
func (k Kind) judged() bool { return k != Tested && k != NotHere && k != NotYet }

func (k *Kind) UnmarshalYAML(n *yaml.Node) error {
	for _, known := range Kinds {
		if n.Value == string(known) {
			*k = known
			return nil
		}
	}
	return yamldoc.WantError(lab.JoinWith(Kinds, ", "))
}

func (Kind) Schema() map[string]any { return map[string]any{"enum": Kinds} }

// Basis says what the evidence of a claim is.
type Basis string

const (
	Measured   Basis = "measured"   // run on this machine, in small
	Modelled   Basis = "modelled"   // planned or simulated on modelled accelerators, at the paper's scale
	Counted    Basis = "counted"    // of a network or a plan: parameters, bytes, equal bits
	Arithmetic Basis = "arithmetic" // closed forms, and figures of the paper
)

// Bases lists them in the order of the report.
var Bases = []Basis{Measured, Modelled, Counted, Arithmetic}

// Verdict is the outcome of a claim.
type Verdict string

const (
	Reproduced   Verdict = "reproduced"              // a count, or a ratio within its tolerance
	Differs      Verdict = "differs"                 // a ratio
	Unstated     Verdict = "within what is unstated" // a ratio: the paper's figure is among ours over what the paper leaves open
	Holds        Verdict = "holds"                   // a trend, or what is ours
	DoesNotHold  Verdict = "does not hold"           // an extension
	Agrees       Verdict = "agrees"                  // a stand-in
	Disagrees    Verdict = "disagrees"               // a stand-in
	NoDifference Verdict = "no difference"           // of what a design judges: it is smaller than the margin
	Undecided    Verdict = "open"                    // of what a design judges: the seeds do not tell
	CannotTell   Verdict = "cannot be told here"     // of what a design judges: a gate is not passed
	JudgedAtFull Verdict = "judged at full"          // the design does not judge this profile
	Inconclusive Verdict = "inconclusive"            // a stand-in
	NotDecided   Verdict = "not decided here"        // all others: the intervals leave it open
	Contradicted Verdict = "contradicted"            // a contradiction: by the paper itself, or by arithmetic
	Follows      Verdict = "follows"                 // what is derived
	Fails        Verdict = "fails"                   // all but ratios, stand-ins and extensions
	TooSmall     Verdict = "too small"               // does not hold in the smoke profile, which is for testing programs
	NoRecord     Verdict = "no record"               // that it could be computed from
	ByTest       Verdict = "held by a test"
	NotAttempted Verdict = "not attempted" // here, or yet
)

// VerdictMeaning is a verdict in words.
type VerdictMeaning struct {
	Verdict Verdict
	Means   string
}

// Verdicts lists them in the order of the report.
var Verdicts = []VerdictMeaning{
	{Reproduced, "a count matches, or a figure is within its tolerance"},
	{Unstated, "our figure is outside the tolerance, but the paper's lies within our range over settings that it does not state"},
	{Differs, "our figure is outside the tolerance"},
	{Holds, "a trend is seen here too, or an extension is true here"},
	{DoesNotHold, "an extension is not true here"},
	{Agrees, "small networks or modelled devices show what the paper says"},
	{Disagrees, "small networks or modelled devices do not show what the paper says"},
	{NoDifference, "small networks: the difference is smaller than the margin that matters"},
	{Undecided, "small networks were trained, and these seeds leave it open: an effect below the one named could not be seen"},
	{CannotTell, "small networks were trained, and they cannot decide it, for the reason given"},
	{JudgedAtFull, "small networks were trained at a profile that the design does not judge: a figure without a verdict"},
	{Inconclusive, "small networks or modelled devices, and the interval leaves it open"},
	{NotDecided, "the interval spans the limit"},
	{Contradicted, "the paper says it, and its own figures or arithmetic say otherwise"},
	{Follows, "by arithmetic on the paper's own figures, or by how a step is built"},
	{Fails, "is not so here"},
	{TooSmall, "profile smoke is too small to show it"},
	{NoRecord, "not measured in these results"},
	{ByTest, "a property of the program, which make test checks"},
	{NotAttempted, "not possible here, or not yet"},
}

// outcomes of a kind: if the evidence says yes, leaves it open, says no.
func (k Kind) outcomes() (yes, open, no Verdict) {
	switch k {
	case Ratio:
		return Reproduced, NotDecided, Differs
	case StandIn:
		return Agrees, Inconclusive, Disagrees
	case Count:
		return Reproduced, NotDecided, Fails
	case Derived:
		return Follows, NotDecided, Fails
	case Contradiction:
		return Contradicted, NotDecided, Fails
	case Extension:
		return Holds, NotDecided, DoesNotHold
	}
	return Holds, NotDecided, Fails
}
