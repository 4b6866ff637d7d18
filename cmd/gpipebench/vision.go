package main

import (
	"github.com/spf13/pflag"

	"gpipebench/experiments"
)

// visionFlags adds the flags that only networks for images have.
func visionFlags(fs *pflag.FlagSet, m *experiments.Model, standard experiments.Model) {
	fs.IntVar(&m.Filters, "filters", standard.Filters, "filters of amoebanetd's first stack of cells")
	fs.IntVar(&m.Width, "width", standard.Width, "channels of a ResNet's stem; 0: 64")
	image, classes := "height and width of images in pixels; 0: 224", "classes of images"
	if standard.Classes == 0 {
		image, classes = "height and width of images in pixels; 0: the data's", "classes of images; 0: as many as the data has"
	}
	fs.IntVar(&m.Image, "image", standard.Image, image)
	fs.IntVar(&m.Classes, "classes", standard.Classes, classes)
	fs.Float64Var(&m.Aux, "aux", 0, "weight of the loss of amoebanetd's auxiliary head, such as 0.4; 0: no head")
	fs.BoolVar(&m.Official, "official", false, "amoebanetd with the stem of the official code")
	fs.BoolVar(&m.Delayed, "delayed", false, "amoebanetd that is reduced later: strides moved from its first convolution to its last")
}
