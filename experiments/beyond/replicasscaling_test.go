package beyond

import (
	"testing"

	"gpipebench/lab/labtest"
)

func TestScalingSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("replicas-scaling"), [][3]string{
		{"replicas: [1, 2, 4, 8]", "replicas: [2, 4, 8]", "want 1 first"},
		{"m: 2\n", "m: 3\n", "3 micro-batches of 4 examples are not of one size"},
	})
}
