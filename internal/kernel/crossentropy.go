package kernel

import "gpipebench/internal/kernel/exactmath"

// CrossEntropy is the softmax cross-entropy of each row z of logits, which is
// (rows, vocab), with target t = targets[r]:
//
//	lse[r]  = log Σ exp(z)
//	loss[r] = (1-smoothing) (lse - z[t]) + smoothing (lse - mean(z))
//
// Smoothing spreads that share of the target evenly over all classes (Szegedy
// et al.: Rethinking the Inception Architecture, arXiv 1512.00567, section 7;
// PyTorch's definition). correct[r] is 1 if t is the first of the largest
// logits, else 0. A row with t < 0 is padding: loss and correct are 0. loss,
// correct, lse and targets are (rows).
func CrossEntropy(loss, correct, lse, logits []float32, targets []int32, rows, vocab int, smoothing float32) {
	for r := range rows {
		z := logits[r*vocab : (r+1)*vocab]
		largest := RowMax(z)
		logSum := LogSum(largest, ExpSum(z, largest))
		lse[r], loss[r], correct[r] = float32(logSum), 0, 0
		t := targets[r]
		if t < 0 {
			continue
		}
		var sum float32
		if smoothing != 0 {
			sum = RowSum(z)
		}
		loss[r] = Entropy(logSum, z[t], sum, vocab, smoothing)
		if z[t] == largest && RowMax(z[:t]) < largest {
			correct[r] = 1
		}
	}
}

// TargetRanks sets ranks[r] to the number of classes that come before the
// target of row r, by larger logits and among equal ones by a smaller index: 0
// if CrossEntropy's correct is 1 and no logit is NaN, less than k if the target is among the first
// k. It is -1 for padding. A class whose logit is NaN comes before the target,
// and so does every class if the target's logit is NaN. ranks and targets are
// (rows).
func TargetRanks(ranks, logits []float32, targets []int32, rows, vocab int) {
	for r := range rows {
		t := targets[r]
		if t < 0 {
			ranks[r] = -1
			continue
		}
		z := logits[r*vocab : (r+1)*vocab]
		before := 0
		for _, v := range z[:t] {
			if !(v < z[t]) {
				before++
			}
		}
		for _, v := range z[t+1:] {
			if !(v <= z[t]) {
				before++
			}
		}
		ranks[r] = float32(before)
	}
}

// CrossEntropyGrad sets dlogits to scale times the gradient of CrossEntropy's
// loss, of cols of the vocab columns, from first on, which are what logits and
// dlogits have:
//
//	dz = scale (exp(z - lse) - (1-smoothing) [j = t] - smoothing/vocab)
//
// Rows with t < 0 are set to zero. dlogits may be logits.
func CrossEntropyGrad(dlogits, logits, lse []float32, targets []int32, scale float32, rows, cols, first, vocab int, smoothing float32) {
	spread := smoothing / float32(vocab)
	for r := range rows {
		z, dz := logits[r*cols:(r+1)*cols], dlogits[r*cols:(r+1)*cols]
		if targets[r] < 0 {
			clear(dz)
			continue
		}
		t := int(targets[r]) - first
		if t < 0 || t >= cols {
			vector.softmaxGrad(dz, z, lse[r], spread, scale)
			continue
		}
		// Compute the target's own element before its logit is overwritten:
		// subtracting 1-smoothing from the scaled sum afterwards would round it
		// twice.
		atTarget := ExpSum(z[t:t+1], lse[r]) - (1 - smoothing) - spread
		vector.softmaxGrad(dz, z, lse[r], spread, scale)
		dz[t] = atTarget * scale
	}
}

// LogSum is the logarithm of the sum of a row's exponentials, from its largest logit and the sum of
// exponentials less that.
func LogSum(largest, sum float32) float64 { return float64(largest) + exactmath.Log(float64(sum)) }

// Entropy is the loss of a row of vocab logits whose target's is given, from its [LogSum] and, with
// smoothing, from the sum of the logits.
func Entropy(logSum float64, target, sum float32, vocab int, smoothing float32) float32 {
	entropy := logSum - float64(target)
	if smoothing != 0 {
		uniform := logSum - float64(sum)/float64(vocab)
		entropy += float64(float64(smoothing) * (uniform - entropy))
	}
	return float32(entropy)
}

func softmaxGradGeneric(dst, x []float32, lse, offset, scale float32) {
	for i := range dst {
		dst[i] = (exp32(x[i]-lse) - offset) * scale
	}
}
