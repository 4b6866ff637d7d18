package nn

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// LRScheduleForms is what [ParseLRSchedule] accepts, for messages and help.
const LRScheduleForms = "constant, inverse-sqrt:WARMUP[:DIM], exponential:FACTOR:EVERY[:smooth] or cosine:STEPS[:FINAL], each but inverse-sqrt also behind warmup:STEPS,"

// ParseLRSchedule reads a schedule as the command line gives it; base is the
// learning rate.
//
//	constant
//	inverse-sqrt:400             climbs to base in 400 steps, then falls
//	inverse-sqrt:4000:512        the formula of Vaswani et al. for a width of 512, times base
//	exponential:0.97:240         times 0.97 every 240 steps, in stairs
//	exponential:0.97:240:smooth  the same without stairs
//	cosine:1000                  falls to 0 in 1000 steps
//	cosine:1000:0.1              falls to a tenth of base
//	warmup:200                   climbs to base in 200 steps, then constant
//	warmup:200,cosine:1000       the cosine's 1000 steps begin after the warm-up
func ParseLRSchedule(text string, base float64) (LRSchedule, error) {
	if !(base > 0) || math.IsInf(base, 0) {
		return nil, fmt.Errorf("learning rate %v: want a positive number", base)
	}
	warm := 0
	first, rest, more := strings.Cut(text, ",")
	if args, ok := strings.CutPrefix(first, "warmup:"); ok {
		steps, err := parseSteps(args)
		if err != nil {
			return nil, scheduleError(text, "warmup:STEPS", err)
		}
		warm = steps
		if !more {
			rest = "constant"
		}
	} else {
		rest = text
	}
	s, err := parseLRPart(text, rest, base)
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

// parseLRPart reads one schedule without a warm-up; text is the whole, for errors.
func parseLRPart(text, part string, base float64) (s LRSchedule, err error) {
	if strings.Contains(part, ",") {
		return nil, fmt.Errorf("learning-rate schedule %q: only warmup:STEPS may stand before a comma, and once", text)
	}
	name, rest, has := strings.Cut(part, ":")
	var args []string
	if has {
		args = strings.Split(rest, ":")
	}
	form, least, most := "", 0, 0
	switch name {
	case "constant":
		form = "constant"
	case "inverse-sqrt":
		form, least, most = "inverse-sqrt:WARMUP[:DIM]", 1, 2
	case "exponential":
		form, least, most = "exponential:FACTOR:EVERY[:smooth]", 2, 3
	case "cosine":
		form, least, most = "cosine:STEPS[:FINAL]", 1, 2
	case "warmup":
		return nil, fmt.Errorf("learning-rate schedule %q: warmup comes once, in front", text)
	default:
		return nil, fmt.Errorf("learning-rate schedule %q: unknown %q, want %s", text, name, LRScheduleForms)
	}
	if len(args) < least || len(args) > most {
		return nil, fmt.Errorf("learning-rate schedule %q: want %s", text, form)
	}
	switch name {
	case "inverse-sqrt":
		s, err = parseInverseSqrt(args, base)
	case "exponential":
		s, err = parseExponential(args, base)
	case "cosine":
		s, err = parseCosine(args, base)
	default:
		s = ConstantLR(base)
	}
	if err != nil {
		return nil, scheduleError(text, form, err)
	}
	return s, nil
}

func parseInverseSqrt(args []string, base float64) (LRSchedule, error) {
	s := InverseSqrtLR{Base: base}
	var err error
	if s.WarmUp, err = parseSteps(args[0]); err == nil && len(args) > 1 {
		s.Dim, err = parseSteps(args[1])
	}
	return s, err
}

func parseExponential(args []string, base float64) (LRSchedule, error) {
	s := ExponentialLR{Base: base, Staircase: len(args) < 3}
	if !s.Staircase && args[2] != "smooth" {
		return nil, fmt.Errorf("%q is not smooth", args[2])
	}
	var err error
	if s.Factor, err = parseShare(args[0]); err == nil && s.Factor == 0 {
		err = fmt.Errorf("a factor of 0 ends the training")
	}
	if err == nil {
		s.Every, err = parseSteps(args[1])
	}
	return s, err
}

func parseCosine(args []string, base float64) (LRSchedule, error) {
	s := CosineLR{Base: base}
	var err error
	if s.Steps, err = parseSteps(args[0]); err == nil && len(args) > 1 {
		s.Final, err = parseShare(args[1])
		s.Final *= base
	}
	return s, err
}

func scheduleError(text, form string, err error) error {
	return fmt.Errorf("learning-rate schedule %q: %w; want %s", text, err, form)
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
