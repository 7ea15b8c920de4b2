// SPDX-License-Identifier: Apache-2.0
// The library's version: one number in a header, in the build and at run time.
#include <criterion/criterion.h>
#include <stdio.h>

#include "hlo/base/version.h"
#include "meshlo_version.h"

Test(version, of_the_library_is_that_of_the_header_and_of_the_build) {
    char text[32];
    snprintf(text, sizeof(text), "%u.%u.%u", hlo_api_version() >> 16, hlo_api_version() >> 8 & 0xFF,
             hlo_api_version() & 0xFF);
    cr_expect_eq(hlo_api_version(), (uint32_t)HLO_API_VERSION);
    cr_expect_str_eq(text, MESHLO_VERSION);
}
