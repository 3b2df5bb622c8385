batch_size = 8
block_size = 1024
compile = False
dtype = 'float32'
