// Package ssd builds single-shot detectors (Liu et al. 2015, "SSD: Single Shot
// MultiBox Detector", arXiv 1512.02325) as lists of pipeline layers, in the form
// of MLPerf's training benchmark 0.6: the first three stages of ResNet-34, of
// which the third keeps its images' size, five more maps, and heads of two 3x3
// convolutions on each of the six (mlcommons/training,
// single_stage_detector/ssd/ssd300.py and README.md, section 4; the TPU
// submission has the same layers).
//
// At 300x300 the maps are 38, 19, 10, 5, 3 and 1 pixels wide and have 8,732
// default boxes.
//
// What the heads find travels along as tensors of the boundary, and the last layer joins it,
// so that a pipeline may cut between maps. There are 19,972,534 parameters for 81 classes and
// 15.86 G multiply-adds an image. It learns from images with one label ([Loss]).
package ssd
