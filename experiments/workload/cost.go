package workload

import (
	"gpipebench/gpipe"
	"gpipebench/nn"
)

// StageCosts sums layers' costs by stage.
func StageCosts(costs []float64, sizes []int) (stages []float64, efficiency float64) {
	var sum, most float64
	for _, n := range sizes {
		var stage float64
		for _, c := range costs[:n] {
			stage += c
		}
		costs = costs[n:]
		stages = append(stages, stage)
		sum += stage
		most = max(most, stage)
	}
	if most == 0 {
		return stages, 1
	}
	return stages, sum / (float64(len(sizes)) * most)
}

// FlopsOf is what the layers of a model cost, from their shapes.
func FlopsOf(m Model) ([]float64, error) {
	layers, err := m.Build()
	if err != nil {
		return nil, err
	}
	d, err := gpipe.Pipeline{Layers: layers, Loss: nn.CrossEntropy{}}.Describe(m.Input(1))
	if err != nil {
		return nil, err
	}
	return d.FLOPs(), nil
}
