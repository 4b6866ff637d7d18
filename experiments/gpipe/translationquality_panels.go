package gpipe

import (
	"fmt"

	"gpipebench/internal/stats"
	"gpipebench/lab/plot"
)

// panels are Figure 3, with the languages that have a translator of their own; all
// languages; Table 5; and how the networks learned.
func (q *quality) panels(r *qualityResults) []plot.Axes {
	figure := plot.LinePanel{Title: "one network for all languages\nagainst one for each", Y: "BLEU, difference to bilingual"}
	everyone := plot.LinePanel{Title: "BLEU of every language", X: "languages by training pairs, the most first", Y: "BLEU", FromZero: true}
	losses := plot.LinePanel{Title: "training loss", X: "millions of target tokens", Y: "nats per token", FromZero: true}
	compared := r.groups()[2].compared()
	for _, l := range compared {
		figure.Names = append(figure.Names, l.name)
	}
	for i, n := range q.Spec.Networks {
		runs := r.networks[i]
		var gain, bleu, loss []plot.Point
		for x, l := range compared {
			gain = append(gain, plot.Point{X: float64(x), Y: stats.Pairs(l.bleu(runs), l.own().bleu).Mean})
		}
		for x, l := range r.languages {
			bleu = append(bleu, plot.Point{X: float64(x + 1), Y: stats.Mean(l.bleu(runs))})
		}
		first := runs[0]
		for x, y := range first.Curve {
			loss = append(loss, plot.Point{X: float64(first.Tokens) / 1e6 * float64(x+1) / float64(len(first.Curve)), Y: y})
		}
		figure.Series = append(figure.Series, plot.Series{Name: n.Name, Lines: [][]plot.Point{gain}})
		everyone.Series = append(everyone.Series, plot.Series{Name: n.Name, Lines: [][]plot.Point{bleu}})
		losses.Series = append(losses.Series, plot.Series{Name: n.Name, Lines: [][]plot.Point{loss}})
	}
	var zero []plot.Point
	for x := range compared {
		zero = append(zero, plot.Point{X: float64(x)})
	}
	figure.Series = append(figure.Series, plot.Series{Name: "bilingual", Lines: [][]plot.Point{zero}, Dashed: true})
	batches := &plot.DotPanel{Title: fmt.Sprintf("mini-batches, %s,\nwith as many tokens and with as many steps", r.Bilingual.Table5), Y: "BLEU"}
	for _, by := range []string{qualitySameTokens, qualityAsLong} {
		for _, b := range q.Spec.Batches {
			name := fmt.Sprintf("%d\n%s", b.Times*r.SmallestBatch, by[len("as many "):])
			batches.Add(name, qualityScoresOf(r.all[q.batchArm(r.qualityProfile, b, by == qualityAsLong).Name]).bleu)
		}
	}
	return []plot.Axes{figure, everyone, batches, losses}
}
