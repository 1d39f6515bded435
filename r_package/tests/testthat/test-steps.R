test_that("settings of steps arrive", {
  context <- local_context()
  data <- data.frame(t = "x")
  book <- codebook("Which?", c("yes", "n"))
  annotate_texts(data, t, book, context, until = 60, embeddings = "e.gguf", unsure = 0.2)
  seen <- the$module$seen("annotate_start")
  expect_match(seen, "'until': 60, 'embeddings': 'e.gguf', 'unsure': 0.2", fixed = TRUE)
})

test_that("the print names the steps", {
  run <- list(steps = list(methods = "m labelled 60 texts."))
  coding <- list(label = "label", text = "text", run = run, columns = c(label = "label"))
  coded <- structure(
    data.frame(text = "a", label = factor("x")),
    class = c("llamaherd_coded", "data.frame"),
    llamaherd = coding
  )
  expect_output(print(coded), "Steps: m labelled 60 texts.", fixed = TRUE)
})
