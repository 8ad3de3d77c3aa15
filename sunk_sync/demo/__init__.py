"""`sunk-sync demo`: both embedded worlds on sockets, the unchanged service between them, a story.

`worlds` is the stage and what people do on it, `syncer` the service as it runs here, `beats` what
can happen and what then must come about, `once` and `endless` two stories made of beats, `teller`
plays one, `diary` is what was told; `scene` and `view` show it, `show` puts it all together.
"""
