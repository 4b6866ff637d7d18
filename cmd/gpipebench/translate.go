package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/spf13/pflag"

	"gpipebench/datasets"
	"gpipebench/train"
)

// translationFlags adds the flags that only translations have.
func translationFlags(fs *pflag.FlagSet, t *train.Training) {
	fileFlag(fs, &t.Translations, "translations", "file for held-out sources, references and translations, .csv", ".csv")
	count(fs, &t.Config.Multilingual.Languages, "languages", 6, 1, datasets.MaxLanguages, "languages of synthetic-translation")
	count(fs, &t.Config.Multilingual.Pairs, "pairs", 40000, 1, datasets.MaxPairs, "training pairs of the largest language of synthetic-translation")
	number(fs, &t.Config.Translation.Temperature, "temperature", 1/0.7, span{least: 1, most: math.MaxFloat32}, "sampling temperature of languages in an epoch; 1: in proportion to their sizes")
	count(fs, &t.Config.Translation.Window, "bucket-window", 0, 0, datasets.MaxWindow, "window of mini-batches whose pairs are sorted by length; 1: no sorting. 0: pairs of a whole epoch are grouped by shape")
	count(fs, &t.Config.Translation.Hosts, "input-hosts", 0, 0, datasets.MaxHosts, "input hosts that take turns making mini-batches; each has its own part of an epoch and its own windows. 0: one")
	number(fs, &t.Config.Translation.Noise, "target-noise", 0, shares, "share of training target tokens replaced at random, from 0 to 1")
}

// joinTied joins --tied or --print-spec and its value, which is optional, to one argument.
func joinTied(args []string) []string {
	out := []string{} // not nil, for which cobra takes the process's own
	for i := 0; i < len(args); i++ {
		if (args[i] == "--tied" || args[i] == "--print-spec") && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			out = append(out, args[i]+"="+args[i+1])
			i++
			continue
		}
		out = append(out, args[i])
	}
	return out
}

// printTranslation lists the scores of each language and of the baselines.
func printTranslation(b *strings.Builder, r *train.Result) {
	if r.Eval.BLEU == nil {
		return
	}
	width := len("all")
	for _, l := range r.Eval.Languages {
		width = max(width, len(l.Name))
	}
	fmt.Fprintf(b, "  %-*s %9s %7s %9s %9s", width, "", "pairs", "share", "nats", "accuracy")
	for _, y := range r.Baselines {
		fmt.Fprintf(b, "  %s", y.Name)
	}
	fmt.Fprintf(b, "  %8s %8s %8s\n", "BLEU", "smoothed", "chrF")
	row := func(l train.LanguageScore, bleu func(datasets.Baseline) float64) {
		fmt.Fprintf(b, "  %-*s %9d %6.1f%% %9.4f %8.2f%%", width, l.Name, l.Train, 100*l.Share, l.Loss, 100*l.Accuracy)
		for _, y := range r.Baselines {
			fmt.Fprintf(b, "  %*.2f", len(y.Name), bleu(y))
		}
		fmt.Fprintf(b, "  %8.2f %8.2f %8.2f\n", l.BLEU, *l.Smoothed, *l.ChrF)
	}
	e := r.Eval
	all := train.LanguageScore{Name: "all", Share: 1, Loss: e.Loss, Accuracy: e.Accuracy, BLEU: *e.BLEU, Smoothed: e.Smoothed, ChrF: e.ChrF}
	for i, l := range e.Languages {
		all.Train += l.Train
		row(l, func(y datasets.Baseline) float64 { return y.Languages[i] })
	}
	row(all, func(y datasets.Baseline) float64 { return y.BLEU })
}
