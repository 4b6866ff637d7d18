package op

// Softmax turns each row of x (..., n) into probabilities: exp(x) divided by
// the row's sum of them. Its gradient needs only y.
type Softmax struct{}

// SoftmaxGrad takes dy, y.
type SoftmaxGrad struct{}

// CrossEntropy is softmax cross-entropy with label smoothing (Szegedy et al.
// 2016): logits (..., v) and targets (...) int32, where a negative target is
// masked. Outputs, each (rows): the row's loss, whether the target had the
// highest logit (1 or 0), the log-sum-exp that the backward needs, and with
// Ranks the number of classes that come before the target (-1 where masked).
// It ends a loss.
type CrossEntropy struct {
	Smoothing float32
	Ranks     bool
	// Weight is the factor of this loss in the network's loss. It applies to
	// the gradient, not to the outputs; 0: 1.
	Weight float32
}

// CrossEntropyGrad takes logits, log-sum-exp, targets.
type CrossEntropyGrad struct{ Smoothing float32 }

// EndLoss passes on the losses of rows and ends the loss.
type EndLoss struct{}

// LossScale returns the gradient of each row: the loss scale. The rows are read
// for their shape only.
type LossScale struct{}
