# SPDX-License-Identifier: Apache-2.0
"""The sizes of the models that models.py (JAX) and torch_cases.py (PyTorch) compute alike."""

UNET = (32, 64, 128, 256)  # features of the levels


def resnet_layers():
    """ResNet-50: each convolution as (rows, inputs, outputs, stride), in the order of its weights, and the blocks: the first of
    a block's convolutions and whether its last one projects the input."""
    layers, blocks, inputs = [(7, 3, 64, 2)], [], 64
    for stage, (count, features) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        for i in range(count):
            stride = 2 if stage and not i else 1
            blocks.append((len(layers), i == 0))
            layers += [(1, inputs, features, 1), (3, features, features, stride), (1, features, 4 * features, 1)]
            layers += [(1, inputs, 4 * features, stride)] if i == 0 else []
            inputs = 4 * features
    return layers, blocks


def unet_widths():
    """Inputs and outputs of the U-Net's 3x3 convolutions, in the order of their weights."""
    widths, inputs = [], 3
    for features in UNET:
        widths += [(inputs, features), (features, features)]
        inputs = features
    for features in UNET[-2::-1]:
        widths += [(features + inputs, features), (features, features)]
        inputs = features
    return widths


def block_shapes(d):
    """Weights of a transformer block: queries, keys and values, output, up, down."""
    return (d, 3 * d), (d, d), (d, 4 * d), (4 * d, d)
