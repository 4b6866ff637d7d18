package gpipe

import (
	"testing"

	"gpipebench/lab/labtest"
)

func TestFigure3SpecErrors(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("figure3"), [][3]string{
		{"base: naive-2", "base: Pipeline-2", "value in the paper is 1"},
		{"    batch: 32", "    batch: 33", "not of one size"},
		{"      - {name: resnet101, width: 8, image: 64, classes: 10}\n", "", "1: want one for each of 2 networks"},
		{"most: 4096", "most: 31", "at most 31 examples: want 32 or more"},
	})
}
