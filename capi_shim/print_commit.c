/* Prints the commit of libllama. CMake runs this program where no file tells the commit.
 */
#include <stdio.h>

#include "ggml.h"

int main(void) {
  puts(ggml_commit());
  return 0;
}
