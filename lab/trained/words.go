package trained

import (
	"fmt"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/internal/stats"
	"gpipebench/lab"
)

// Word is a column that specs can have.
type Word struct {
	Head string                         // if the spec gives none
	Left bool                           // text; numbers stand at the right
	Cell func(r *Reporting, at Row) any // nil: none, as nothing is compared with itself
}

// ofRow is the cell of an arm's row.
func ofRow(cell func(at Row) any) func(*Reporting, Row) any {
	return func(_ *Reporting, at Row) any { return cell(at) }
}

// compared is the cell of a comparison.
func compared(cell func(r *Reporting, c Comparison) any) func(*Reporting, Row) any {
	return func(r *Reporting, at Row) any {
		if at.Own == at.Base {
			return nil
		}
		return cell(r, r.compare(at))
	}
}

// training is the cell of a row's training.
func (at Row) batch(r *Reporting) int {
	return r.Frame.Training(r.Size, at.Own.ArmSpec, r.Seed).Batch / max(at.Own.Setup.Replicas, 1)
}

// micro is the size of a micro-batch of one replica, the largest if they are not alike.
func (at Row) micro(r *Reporting) int {
	return gpipe.MicroBatchSizes(at.batch(r), at.Own.Setup.MicroBatches)[0]
}

// needed are the words that mean something only of outcomes, of whole records, or in some rows.
var needed = map[string][]string{
	"outcome":     {"accuracy", "sd", "held-out", "bleu", "chrf", "bleu-smoothed", "within", "mean-within", "difference", "paired", "p", "margin", "outcome", "difference-held-out", "sd-held-out", "comparable", "training-loss", "over-dictionary", "exposure", "ended", "at-edge", "epochs", "reached", "collapses", "onset", "norm", "peaky", "clipped", "first-logit", "updates", "arrived", "pilots"},
	"whole":       {"task", "steps", "bits", "accuracy-at-end", "weights"},
	"yardsticks":  {"yardstick", "yardstick-bits", "over-yardstick"},
	"by-language": {"of-language", "its-pairs", "its-share", "its-dictionary", "its-nats", "its-bleu", "own-nats", "own-bleu"},
	"pairs":       {"pair", "difference-training"},
	"languages":   {"language", "pairs", "share", "copy", "dictionary", "language-bleu", "language-nats", "language-accuracy"},
}

// ofSentences are the words of trials that need data of translators in every profile, and
// withBaselines those that need the spec's baselines.
var (
	ofSentences   = []string{"bleu", "chrf", "bleu-smoothed", "exposure", "over-dictionary"}
	withBaselines = []string{"over-dictionary", "its-dictionary"}
)

// fits reports whether a word means something in rows of some kind.
func (f *Frame) fits(word, rows string, translated bool) bool {
	if slices.Contains(ofSentences, word) && !translated || slices.Contains(withBaselines, word) && !f.Baselines {
		return false
	}
	for needs, words := range needed {
		if slices.Contains(words, word) {
			return needs == rows || needs == "whole" && f.Whole || needs == "outcome" && !f.Whole
		}
	}
	return true
}

// words are the columns of this kind.
var words = map[string]Word{
	"label":       {"training", true, ofRow(func(at Row) any { return at.Own.label() })},
	"K":           {"K", false, ofRow(func(at Row) any { return at.Own.Setup.Partitions })},
	"M":           {"M", false, ofRow(func(at Row) any { return at.Own.Setup.MicroBatches })},
	"bn-scope":    {"scope", true, ofRow(func(at Row) any { return at.Own.Setup.BNScope })},
	"micro-batch": {"micro-batch", false, func(r *Reporting, at Row) any { return at.micro(r) }},
	"micro-batches": {"micro-batch", true, func(r *Reporting, at Row) any { // as text, both sizes if there are two
		sizes := gpipe.MicroBatchSizes(at.batch(r), at.Own.Setup.MicroBatches)
		if last := sizes[len(sizes)-1]; sizes[0] != last {
			return lab.Ints(" or ", []int{last, sizes[0]})
		}
		return lab.Ints("", sizes[:1])
	}},
	"statistics": {"statistics of", false, func(r *Reporting, at Row) any { // examples that batch norm normalises together
		if at.Own.Setup.BNScope == gpipe.AllScope {
			return at.micro(r) * max(at.Own.Setup.Replicas, 1)
		}
		return at.micro(r)
	}},

	"parameters": {"parameters", false, ofRow(func(at Row) any { return at.Own.params() })},
	"parameters-ratio": {"parameters / first", false, ofRow(func(at Row) any {
		return lab.Fixed(float64(at.Own.params())/float64(at.Base.params()), 3)
	})},
	"rate": {"rate", false, ofRow(func(at Row) any { return lab.Number("%g", at.Own.Arm.Training(1).LR) })},
	"shape": {"T(layers, ff, heads)", false, ofRow(func(at Row) any {
		m := at.Own.Arm.Training(1).Model
		return fmt.Sprintf("T(%d, %d, %d)", m.Layers, m.FF, m.Heads)
	})},
	"paper":          {"paper", false, ofRow(func(at Row) any { return lab.Figure(at.Own.Paper) })},
	"batch":          {"mini-batch", false, ofRow(func(at Row) any { return at.Own.Arm.Training(1).Batch })},
	"training-steps": {"steps", false, ofRow(func(at Row) any { return at.Own.Arm.Training(1).Steps })},

	"accuracy":    {"accuracy", false, ofRow(func(at Row) any { return at.Own.mean() })},
	"sd":          {"sd", false, func(r *Reporting, at Row) any { return lab.SD(metrics[r.Metric](at.Own.Trials), 2) }},
	"held-out":    {"held-out loss", false, ofRow(func(at Row) any { return lab.Mean(at.Own.heldOut(), 4) })},
	"sd-held-out": {"sd of loss", false, ofRow(func(at Row) any { return lab.SD(at.Own.heldOut(), 4) })},
	"bleu":        {"BLEU", false, ofRow(func(at Row) any { return lab.Mean(at.Own.bleu(), 2) })},
	"chrf":        {"chrF", false, ofRow(func(at Row) any { return meanOrAbsent(at.Own.chrF(), 2) })},
	"bleu-smoothed": {"smoothed BLEU", false, ofRow(func(at Row) any {
		return meanOrAbsent(at.Own.smoothed(), 2)
	})},

	"within": {"runs within [V1]", false, compared(func(r *Reporting, c Comparison) any {
		return lab.Joined("%v of %v", c.Within, len(r.Size.Seeds))
	})},
	"mean-within": {"mean within", true, compared(func(_ *Reporting, c Comparison) any { return lab.YesOrNo(c.MeanWithin) })},
	"difference":  {"difference (points)", false, compared(func(_ *Reporting, c Comparison) any { return lab.Paired(c.Paired, 2) })},
	"p":           {"p of equivalence", false, compared(func(_ *Reporting, c Comparison) any { return lab.Fixed(c.Equivalent, 3) })},
	"margin": {"smallest margin to hold", false, compared(func(r *Reporting, c Comparison) any {
		if smallest, ok := c.SmallestMargin(r.Level); ok {
			return lab.Fixed(smallest, 2)
		}
		return lab.Absent
	})},
	// At most the margin worse, or not shown to be. A baseline within the margin of nothing has
	// nothing to be compared with.
	"comparable": {"comparable", true, compared(func(r *Reporting, c Comparison) any {
		switch lo, hi, ok := c.Interval(0.95); {
		case !ok || stats.Mean(metrics[r.Metric](r.Results[0].Trials)) <= r.Margin:
			return "not shown"
		case lo >= -r.Margin:
			return "yes"
		case hi < -r.Margin:
			return "no"
		}
		return "not shown"
	})},
	"outcome": {"outcome", true, compared(func(r *Reporting, c Comparison) any { return c.Says(r.Level) })},
	"difference-held-out": {"difference of loss (nats)", false, func(_ *Reporting, at Row) any {
		if at.Own == at.Base {
			return nil
		}
		return lab.Paired(stats.Pairs(at.Own.heldOut(), at.Base.heldOut()), 4)
	}},

	// Of trainings until an accuracy.
	"epochs":  {"epochs", false, ofRow(epochsCell)},
	"reached": {"reached", false, ofRow(func(at Row) any { return lab.Joined("%v of %v", at.Own.reached(), len(at.Own.Runs)) })},

	// Of arms with a target.
	"updates": {"steps to the target's loss", false, updatesCell},
	"arrived": {"runs that come there", false, arrived},

	// Of the set of images that an arm sees.
	"set":            {"images", true, ofSet(func(name string, _ *setContents) any { return name })},
	"set-train":      {"training images", false, ofSet(func(_ string, c *setContents) any { return c.Train })},
	"set-held-out":   {"test images", false, ofSet(func(_ string, c *setContents) any { return c.HeldOut })},
	"set-classes":    {"classes", false, ofSet(func(_ string, c *setContents) any { return c.Classes })},
	"majority":       {"most frequent class", false, ofSet(func(_ string, c *setContents) any { return lab.Percent(c.Majority, 2) })},
	"beats-majority": {"better than that", true, beatsMajority},

	"training-loss": {"training loss at the end", false, ofRow(func(at Row) any { return meanOrAbsent(at.Own.endOf(), 4) })},
	"over-dictionary": {"BLEU less dictionary", false, func(r *Reporting, at Row) any {
		return lab.Paired(stats.Pairs(at.Own.bleu(), r.Without.bleu(at.Own.Only, dictionaryOf)), 2)
	}},
	"exposure": {"examples over the first", false, func(r *Reporting, at Row) any { return lab.Fixed(r.exposure(at.Own), 3) }},
	"ended":    {"steps made", false, ofRow(func(at Row) any { return lab.Mean(at.Own.made(), 0) })},

	// Of trainings that are watched.
	"collapses": {"runs that collapse", false, ofRow(collapses)},
	"onset":     {"at step", false, ofRow(onset)},
	"norm": {"largest gradient norm over the median", false, medianSeen(largestNorm,
		func(x float64) lab.Value { return lab.Number("%.3g", x) })},
	"peaky": {"peaky predictions", false, medianSeen(most(peakiest), shareOf)},
	"clipped": {"clipped logits", false, ofRow(func(at Row) any {
		if values := at.Own.seen(clippedBefore); values != nil {
			return lab.Percent(slices.Max(values), 2)
		}
		return lab.Absent
	})},
	"first-logit": {"largest logit at the start", false, medianSeen(func(w *Watched) float64 { return w.Looks[0].Largest },
		func(x float64) lab.Value { return lab.Fixed(x, 2) })},

	// Of pairs: of the one whose first arm a row has, and of rows of pairs.
	"paired": {"difference in its pair", false, func(r *Reporting, at Row) any {
		i := slices.IndexFunc(r.Pairs, func(p PairSpec) bool { return p.Of == at.Own.ArmSpec.Name })
		if i < 0 {
			return nil
		}
		return lab.Paired(r.compare(Row{Own: at.Own, Base: r.Results[r.Named(r.Pairs[i].To)]}).Paired, 2)
	}},
	"pair": {"difference", true, ofRow(func(at Row) any { return at.Label })},
	"difference-training": {"training loss (nats)", false, ofRow(func(at Row) any {
		own, base := at.Own.endOf(), at.Base.endOf()
		if own == nil || base == nil {
			return lab.Absent
		}
		return lab.Paired(stats.Pairs(own, base), 4)
	})},

	// Of trials of translators, by language.
	"of-language": {"language", true, func(r *Reporting, at Row) any { return r.Size.Data.Names()[at.Nth] }},
	"its-pairs":   {"training pairs", false, ofRow(func(at Row) any { return at.Own.Runs[0].Languages[at.Nth].Train })},
	"its-share":   {"share of a batch", false, ofRow(func(at Row) any { return lab.Share(at.Own.Runs[0].Languages[at.Nth].Share, 1) })},
	"its-dictionary": {"BLEU of a dictionary", false, func(r *Reporting, at Row) any {
		return lab.Mean(r.Without.bleu(at.Nth+1, dictionaryOf), 2)
	}},
	"its-nats": {"nats per token", false, inLanguage(nats, 4)},
	"its-bleu": {"BLEU", false, inLanguage(bleu, 2)},
	"own-nats": {"nats of a translator of its own", false, alone(nats, 4)},
	"own-bleu": {"BLEU of a translator of its own", false, alone(bleu, 2)},

	// Of pilots.
	"pilots": {"pilots: loss by rate", true, pilotsCell},
	"at-edge": {"rate at an end", true, ofRow(func(at Row) any {
		rate, tried := at.Own.Arm.Training(1).LR, at.Own.Rates
		if tried == nil {
			return lab.Absent
		}
		return lab.YesOrNo(rate == tried[0] || rate == tried[len(tried)-1])
	})},

	// Of whole records.
	"task": {"task", true, ofRow(func(at Row) any {
		if s := at.Own.whole; s.Bytes > 0 {
			return fmt.Sprintf("%s (%s, %d bytes)", at.Own.label(), s.GoVersion, s.Bytes)
		}
		return at.Own.label()
	})},
	"steps":           {"steps", false, ofRow(func(at Row) any { return len(at.Own.whole.Losses) })},
	"bits":            {"loss", false, ofRow(func(at Row) any { return lab.Fixed(at.Own.whole.Eval.BitsPerToken, 4) })},
	"accuracy-at-end": {"accuracy", false, ofRow(func(at Row) any { return lab.Percent(at.Own.whole.Eval.Accuracy, 1) })},
	"weights":         {"SHA-256 of the weights", true, ofRow(func(at Row) any { return at.Own.whole.WeightsSHA256[:16] })},
	"yardstick":       {"held against", true, ofRow(func(at Row) any { return at.Own.whole.Yardsticks[at.Nth].Name })},
	"yardstick-bits":  {"bits", false, ofRow(func(at Row) any { return lab.Fixed(at.Own.whole.Yardsticks[at.Nth].Bits, 4) })},
	"over-yardstick": {"loss/that", false, ofRow(func(at Row) any {
		return lab.Fixed(at.Own.whole.Eval.BitsPerToken/at.Own.whole.Yardsticks[at.Nth].Bits, 3)
	})},

	// Of whole records of translators, by language.
	"language":          {"language", true, ofRow(func(at Row) any { return at.language().Name })},
	"pairs":             {"training pairs", false, ofRow(func(at Row) any { return at.language().Train })},
	"share":             {"share of a batch", false, ofRow(func(at Row) any { return lab.Share(at.language().Share, 1) })},
	"copy":              {"BLEU: copy", false, ofRow(byBaseline(0))},
	"dictionary":        {"dictionary", false, ofRow(byBaseline(1))},
	"language-bleu":     {"BLEU", false, ofRow(func(at Row) any { return lab.Fixed(at.language().BLEU, 2) })},
	"language-nats":     {"nats per token", false, ofRow(func(at Row) any { return lab.Fixed(at.language().Loss, 4) })},
	"language-accuracy": {"accuracy", false, ofRow(func(at Row) any { return lab.Percent(at.language().Accuracy, 1) })},
}

// meanOrAbsent is the mean of scores that records may lack.
func meanOrAbsent(scores []float64, digits int) any {
	if scores == nil {
		return lab.Absent
	}
	return lab.Mean(scores, digits)
}

// params is the number of an arm's parameters.
func (r *Result) params() int64 {
	if r.whole != nil {
		return r.whole.Params
	}
	return r.Runs[0].Params
}
