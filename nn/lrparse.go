package nn

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// LRScheduleForms describes what [LRUnits.Parse] accepts, for messages and
// help.
const LRScheduleForms = "constant, inverse-sqrt:WARMUP[:DIM], exponential:FACTOR:EVERY[:smooth], polynomial:POWER:STEPS[:FINAL] or cosine:STEPS[:FINAL], each but inverse-sqrt also after warmup:STEPS, and each also after batch/N, which scales the rate by the mini-batch over N; FINAL is a share of the rate, and steps may be epochs, such as 2.4epochs"

// LRUnits are the units, besides steps and rates, in which schedules may be
// given.
type LRUnits struct {
	Batch      int // examples per mini-batch; 0: unknown
	EpochSteps int // mini-batches per epoch; 0: unknown, or there are no epochs
}

// Parse reads a schedule as the command line gives it; base is the learning rate.
//
//	constant
//	inverse-sqrt:400             climbs to base in 400 steps, then falls
//	inverse-sqrt:4000:512        the formula of Vaswani et al. for a width of 512, times base
//	exponential:0.97:240         times 0.97 every 240 steps, in stairs
//	exponential:0.97:240:smooth  the same without stairs
//	polynomial:2:1000            falls to 0 in 1000 steps, as the square of what is left of them
//	polynomial:2:1000:0.1        falls to a tenth of base
//	cosine:1000                  falls to 0 in 1000 steps
//	cosine:1000:0.1              falls to a tenth of base
//	warmup:200                   climbs to base in 200 steps, then constant
//	warmup:200,cosine:1000       the cosine's 1000 steps begin after the warm-up
//
// As in AmoebaNet's training, base may be given per number of examples in a
// mini-batch (Goyal et al. 2017, section 2.1), and steps as epochs, rounded
// down:
//
//	batch/256,constant                                               base times the mini-batch over 256
//	exponential:0.97:2.4epochs                                       times 0.97 every 2.4 epochs
//	batch/256,warmup:5epochs,exponential:0.97:2.4epochs              both, after a warm-up
func (u LRUnits) Parse(text string, base float64) (LRSchedule, error) {
	if !(base > 0) || math.IsInf(base, 0) {
		return nil, fmt.Errorf("learning rate %v: want a positive number", base)
	}
	rest := text
	if args, after, ok := cutPart(rest, "batch/"); ok {
		per, err := parseSteps(args)
		if err == nil && u.Batch == 0 {
			err = fmt.Errorf("there is no mini-batch to scale with")
		}
		if err != nil {
			return nil, scheduleError(text, "batch/N", err)
		}
		base *= float64(u.Batch) / float64(per)
		rest = after
	}
	warm := 0
	if args, after, ok := cutPart(rest, "warmup:"); ok {
		steps, err := u.parseSteps(args)
		if err != nil {
			return nil, scheduleError(text, "warmup:STEPS", err)
		}
		warm = steps
		rest = after
	}
	s, err := u.parsePart(text, rest, base)
	if err != nil {
		return nil, err
	}
	if warm == 0 {
		return s, nil
	}
	if _, ok := s.(InverseSqrtLR); ok {
		return nil, fmt.Errorf("learning-rate schedule %q: inverse-sqrt has a warm-up of its own", text)
	}
	return WarmUpLR{warm, s}, nil
}

// cutPart cuts a part with the given beginning off the front of a schedule. The
// rest is "constant" if nothing follows.
func cutPart(text, beginning string) (args, rest string, found bool) {
	first, rest, more := strings.Cut(text, ",")
	args, found = strings.CutPrefix(first, beginning)
	if !more {
		rest = "constant"
	}
	return args, rest, found
}

// parsePart reads one schedule without its prefixes; text is the whole, for
// errors.
func (u LRUnits) parsePart(text, part string, base float64) (s LRSchedule, err error) {
	if strings.Contains(part, ",") {
		return nil, fmt.Errorf("learning-rate schedule %q: want only batch/N and warmup:STEPS before a comma, in this order and once", text)
	}
	name, rest, has := strings.Cut(part, ":")
	a := lrArguments{units: u}
	if has {
		a.texts = strings.Split(rest, ":")
	}
	form, known := lrForms[name]
	switch {
	case name == "warmup":
		return nil, fmt.Errorf("learning-rate schedule %q: warmup comes once, in front", text)
	case !known:
		return nil, fmt.Errorf("learning-rate schedule %q: unknown %q, want %s", text, name, LRScheduleForms)
	case len(a.texts) < form.least || len(a.texts) > form.most:
		return nil, fmt.Errorf("learning-rate schedule %q: want %s", text, form.text)
	}
	if s = form.read(&a, base); a.err != nil {
		return nil, scheduleError(text, form.text, a.err)
	}
	return s, nil
}

// lrForms are the schedules by name: how each is written, with how many arguments, and
// how these are read.
var lrForms = map[string]struct {
	text        string
	least, most int
	read        func(a *lrArguments, base float64) LRSchedule
}{
	"constant": {"constant", 0, 0, func(_ *lrArguments, base float64) LRSchedule { return ConstantLR(base) }},
	"inverse-sqrt": {"inverse-sqrt:WARMUP[:DIM]", 1, 2, func(a *lrArguments, base float64) LRSchedule {
		return InverseSqrtLR{Base: base, WarmUp: argument(a, 0, a.units.parseSteps), Dim: argument(a, 1, parseSteps)}
	}},
	"exponential": {"exponential:FACTOR:EVERY[:smooth]", 2, 3, func(a *lrArguments, base float64) LRSchedule {
		smooth := argument(a, 2, parseSmooth)
		return ExponentialLR{Base: base, Factor: argument(a, 0, parseFactor), Every: argument(a, 1, a.units.parseSteps), Staircase: !smooth}
	}},
	"polynomial": {"polynomial:POWER:STEPS[:FINAL]", 2, 3, func(a *lrArguments, base float64) LRSchedule {
		return PolynomialLR{Base: base, Power: argument(a, 0, parsePower), Steps: argument(a, 1, a.units.parseSteps), Final: argument(a, 2, parseShare) * base}
	}},
	"cosine": {"cosine:STEPS[:FINAL]", 1, 2, func(a *lrArguments, base float64) LRSchedule {
		return CosineLR{Base: base, Steps: argument(a, 0, a.units.parseSteps), Final: argument(a, 1, parseShare) * base}
	}},
}

// lrArguments are a schedule's arguments, and the first error in reading them.
type lrArguments struct {
	units LRUnits
	texts []string
	err   error
}

// argument reads argument i, which is 0 if it is not given.
func argument[T any](a *lrArguments, i int, parse func(string) (T, error)) (value T) {
	if i < len(a.texts) && a.err == nil {
		value, a.err = parse(a.texts[i])
	}
	return value
}

func scheduleError(text, form string, err error) error {
	return fmt.Errorf("learning-rate schedule %q: %w; want %s", text, err, form)
}

// parseSteps reads a count of steps, or of epochs.
func (u LRUnits) parseSteps(s string) (int, error) {
	number, ok := strings.CutSuffix(s, "epochs")
	if !ok {
		return parseSteps(s)
	}
	epochs, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil || !(epochs > 0):
		return 0, fmt.Errorf("%q is not a positive number of epochs", s)
	case u.EpochSteps == 0:
		return 0, fmt.Errorf("%q, but there are no epochs", s)
	}
	// 0.29 of 100 is 29, although the product is a little less in binary.
	steps := math.Floor(epochs * float64(u.EpochSteps) * (1 + 1e-12))
	if !(steps >= 1 && steps <= math.MaxInt32) {
		return 0, fmt.Errorf("%q of %d steps each is not 1 to %d steps", s, u.EpochSteps, math.MaxInt32)
	}
	return int(steps), nil
}

// parseSteps reads a count of at least 1.
func parseSteps(s string) (int, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a whole number from 1 to %d", s, math.MaxInt32)
	}
	return int(n), nil
}

// parseShare reads a number in [0, 1].
func parseShare(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v <= 1) {
		return 0, fmt.Errorf("%q is not a number from 0 to 1", s)
	}
	return v, nil
}

// parseFactor reads a number above 0, up to 1.
func parseFactor(s string) (float64, error) {
	v, err := parseShare(s)
	if err == nil && v == 0 {
		err = fmt.Errorf("a factor of 0 ends the training")
	}
	return v, err
}

// parsePower reads a finite number above 0.
func parsePower(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v > 0) || math.IsInf(v, 1) {
		return 0, fmt.Errorf("%q is not a positive power", s)
	}
	return v, nil
}

// parseSmooth reads the word smooth.
func parseSmooth(s string) (bool, error) {
	if s != "smooth" {
		return false, fmt.Errorf("%q is not smooth", s)
	}
	return true, nil
}
