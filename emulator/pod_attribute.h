// SPDX-License-Identifier: Apache-2.0
// Inside the room: which attribute of a pod description does not fit the grammar, and why.
#ifndef MESHLO_EMULATOR_POD_ATTRIBUTE_H_
#define MESHLO_EMULATOR_POD_ATTRIBUTE_H_

#include <libxml/tree.h>

#include "hlo/base/text.h"

// Appends what is wrong with the attributes of the first element whose attributes are not as pod.rng wants them, and
// returns that element; NULL where there is none, or memory is short.
const xmlNode *emu_pod_attribute_complaint(xmlDoc *document, HloText *text);

#endif
