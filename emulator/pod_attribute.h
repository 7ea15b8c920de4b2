// SPDX-License-Identifier: Apache-2.0
// Internal: which attribute of a pod description does not match the grammar, and why.
#ifndef MESHLO_EMULATOR_POD_ATTRIBUTE_H_
#define MESHLO_EMULATOR_POD_ATTRIBUTE_H_

#include <libxml/tree.h>

#include "hlo/base/text.h"

// Appends the errors in the attributes of the first element that does not match pod.rng, and returns that element; NULL
// if there is none, or memory is short.
const xmlNode *emu_pod_attribute_complaint(xmlDoc *document, HloText *text);

#endif
